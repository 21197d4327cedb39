// SPDX-License-Identifier: Apache-2.0

package migrate

import "slices"

// PartCommit is the name, in manifests and statements, of the image that the source
// commits for ApproachCommit. It travels through the registry.
const PartCommit = "commit"

// Committed is the image that the source has made of a container: the target pulls it
// by Digest and creates the copy of nothing else.
type Committed struct {
	ImageID string `json:"image_id"` // digest of its configuration
	Digest  string `json:"digest"`   // of its manifest in the registry, sha256:...
}

// Needed returns the parts without which a copy must not be restored, by their
// names, sorted.
func (o MoveSpec) Needed() []string {
	var list []string
	switch o.Approach {
	case ApproachBundle:
		return []string{string(PartArchive)}
	case ApproachExport:
		list = append(list, string(PartExport))
	case ApproachCommit:
		list = append(list, PartCommit)
	case ApproachLayer, ApproachAuto:
		list = append(list, string(PartLayer))
	}
	for _, v := range o.Container.Volumes {
		list = append(list, Part{PartVolume, v.Name}.String())
	}
	list = append(list, string(PartCheckpoint))
	slices.Sort(list)
	return list
}

// Parts returns the names of all parts that may travel for an order, sorted.
func (o MoveSpec) Parts() []string {
	list := o.Needed()
	if o.Approach != ApproachExport {
		list = append(list, string(PartImage))
	}
	if o.PreCopy {
		list = append(list, string(PartMemory))
	}
	slices.Sort(list)
	return list
}
