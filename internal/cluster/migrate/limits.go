// SPDX-License-Identifier: Apache-2.0

package migrate

// Between the pre-flight and its end a container goes on and grows. So a part may have
// so many times the bytes that were announced, and some more.
const (
	growth         = 2
	growthBytes    = 512 << 20
	mostOfAnything = 1 << 50 // bytes; announced sizes come from another machine
)

// announced returns how many bytes the pre-flight found in a part.
func (o MoveSpec) announced(p Part) int64 {
	c := o.Container
	volumes := func(name string) (sum int64) {
		for _, v := range c.Volumes {
			if name == "" || v.Name == name {
				sum += sane(v.Bytes)
			}
		}
		return sum
	}
	switch p.Kind {
	case PartImage:
		return sane(c.ImageBytes)
	case PartExport:
		return sane(c.ImageBytes) + sane(c.LayerBytes)
	case PartLayer:
		return sane(c.LayerBytes)
	case PartVolume:
		return volumes(p.Name)
	case PartCheckpoint, PartMemory:
		return sane(c.MemoryBytes)
	case PartArchive:
		return sane(c.MemoryBytes) + sane(c.LayerBytes) + volumes("")
	}
	return 0
}

// sane returns a size, which another machine may have made up, within bounds.
func sane(bytes int64) int64 { return min(max(bytes, 0), mostOfAnything) }

// Limit returns how many bytes a part may have once it is unpacked. The source
// announced them; a target that did not hold it to that could be filled by it.
func (o MoveSpec) Limit(p Part) int64 { return growth*o.announced(p) + growthBytes }
