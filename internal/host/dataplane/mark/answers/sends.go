// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"sync"

	"github.com/cilium/ebpf/btf"
)

// Sends says where struct sk_buff has its socket, and struct sock how much it has sent that is not
// gone; 0, 0 = the kernel does not say. The programs at links load on kernels without BTF too, so
// that they are told.
func Sends() (socket, sent uint32) {
	at := sends()
	return at[0], at[1]
}

var sends = sync.OnceValue(func() (at [2]uint32) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return at
	}
	for i, want := range [2][2]string{{"sk_buff", "sk"}, {"sock", "sk_wmem_alloc"}} {
		var in *btf.Struct
		if err := kernel.TypeByName(want[0], &in); err != nil {
			return [2]uint32{}
		}
		offset, found := member(in.Members, want[1])
		if !found {
			return [2]uint32{}
		}
		at[i] = offset
	}
	return at
})

// member returns the offset of a member, of a struct or of a part of it without a name, in bytes.
func member(of []btf.Member, name string) (offset uint32, found bool) {
	for _, m := range of {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		var inside []btf.Member
		switch part := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inside = part.Members
		case *btf.Union:
			inside = part.Members
		}
		if offset, found = member(inside, name); found {
			return m.Offset.Bytes() + offset, true
		}
	}
	return 0, false
}
