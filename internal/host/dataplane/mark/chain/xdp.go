// SPDX-License-Identifier: Apache-2.0

package chain

import "github.com/cilium/ebpf/link"

// XDP follows the links of XDP, which put programs to devices without a notice of the kernel's. Ids
// of links only grow, so that a look costs a system call and what has come since the last one. The
// zero value has not looked.
type XDP struct{ last link.ID }

// Linked reports whether one has come since the last look.
func (x *XDP) Linked() (linked bool) {
	links := link.Iterator{ID: x.last}
	defer links.Close()
	for links.Next() {
		x.last = links.ID
		info, err := links.Link.Info()
		linked = linked || err == nil && info.Type == link.XDPType
	}
	return linked
}
