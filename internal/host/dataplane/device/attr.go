// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// EachAttr calls visit for each netlink attribute in raw, with the type freed of
// its flags. The value is a part of raw. The netlink library has the like, but it
// panics where the last attribute is cut off, and some of these bytes were
// read from a file.
func EachAttr(raw []byte, visit func(typ uint16, value []byte) error) error {
	native := nl.NativeEndian()
	for len(raw) >= unix.SizeofRtAttr {
		length := int(native.Uint16(raw))
		if length < unix.SizeofRtAttr || length > len(raw) {
			return fmt.Errorf("netlink attribute of %d bytes in a message of %d", length, len(raw))
		}
		typ := native.Uint16(raw[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := visit(typ, raw[unix.SizeofRtAttr:length]); err != nil {
			return err
		}
		raw = raw[min((length+3)&^3, len(raw)):]
	}
	return nil
}
