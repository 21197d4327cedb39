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
	Table zone.Table
	Bare  bool     // packets without an address, too
	Sum   [32]byte // of the table
}

// NewArea makes the table of an area behind a device with these networks.
func NewArea(a zone.Area, connected []netip.Prefix) (*CompiledArea, error) {
	table, ok := a.Compile(connected)
	if !ok {
		return nil, fmt.Errorf("the zones of the link have more prefixes than a table can hold (%d and %d); bring them down, by shorter ones that hold several",
			len(a.In.List), len(a.Out.List))
	}
	bytes := make([]byte, 0, 2*len(table))
	for _, entry := range table {
		bytes = binary.NativeEndian.AppendUint16(bytes, entry)
	}
	return &CompiledArea{Table: table, Bare: a.Bare, Sum: sha256.Sum256(bytes)}, nil
}
