// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"

	"weir/internal/core/policy/zone"
)

// CompiledArea is a set of addresses as programs read it, see zone.Area.
type CompiledArea struct {
	Trie zone.Trie
	Bare bool     // packets without an address, too
	Sum  [32]byte // of the trie
}

// NewArea makes the trie of an area behind a device with these networks.
func NewArea(a zone.Area, connected []netip.Prefix) (*CompiledArea, error) {
	trie, ok := a.Compile(connected)
	if !ok {
		return nil, fmt.Errorf("the zones of the link have more prefixes than a table can hold (%d and %d); bring them down, by shorter ones that hold several",
			len(a.In.List), len(a.Out.List))
	}
	bytes := make([]byte, 0, 2*len(trie))
	for _, entry := range trie {
		bytes = binary.NativeEndian.AppendUint16(bytes, entry)
	}
	return &CompiledArea{Trie: trie, Bare: a.Bare, Sum: sha256.Sum256(bytes)}, nil
}
