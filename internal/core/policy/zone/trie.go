// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"slices"
)

// Trie says which addresses are in an area, as the kernel reads it: chunks of 256 entries. An
// entry is 0 (not in the area), 1 (in it), or the number of the chunk that decides by the next
// byte of the address.
//
//	chunks 0 to 255    by the first two bytes of an IPv4 address
//	chunks 256 to 511  by the first two bytes of an IPv6 address
//
// Example: 10.1.2.0/24 is in the area and nothing else. Entry 0x0a01 is 512; entry 2 of chunk
// 512 is 1, all others are 0. The packet to 10.1.2.7 takes two steps, one to 8.8.8.8 one.
//
// A chunk that another one is equal to is not stored twice, so 10,000 addresses have no 10,000
// chunks at the end.
type Trie []uint16

// Where the two trees begin, and how many chunks an entry can name.
const (
	Chunk     = 256
	RootIPv6  = 256 * Chunk
	roots     = 512
	mostChunk = 1<<16 - 1
)

// Compile makes the trie of an area. connected are the networks of the device. ok is false if
// there are so many prefixes that entries cannot number the chunks.
func (a Area) Compile(connected []netip.Prefix) (t Trie, ok bool) {
	type entry struct {
		prefix netip.Prefix
		in     bool
	}
	var all []entry
	written := map[netip.Prefix]bool{}
	for _, side := range []struct {
		Prefixes
		in bool
	}{{a.In, true}, {a.Out, false}} {
		for _, p := range side.List {
			written[p] = true
			all = append(all, entry{p, side.in})
		}
	}
	for _, p := range connected {
		if (a.In.Connected || a.Out.Connected) && !written[p] {
			all = append(all, entry{p, a.In.Connected})
		}
	}
	slices.SortStableFunc(all, func(x, y entry) int { return x.prefix.Bits() - y.prefix.Bits() })
	four, six := newTree(a.Rest), newTree(a.Rest)
	for _, e := range all {
		if e.prefix.Addr().Is4() {
			four.add(e.prefix, e.in)
		} else {
			six.add(e.prefix, e.in)
		}
	}
	w := writer{trie: make(Trie, roots*Chunk), known: map[[Chunk]uint16]uint16{}}
	for i, tree := range []tree{four, six} {
		for j, c := range tree {
			w.trie[i*RootIPv6+j] = w.write(c)
		}
	}
	return w.trie, !w.full
}

// tree decides by the first two bytes of an address.
type tree []cell

// cell is one entry before it has a number.
type cell struct {
	in    bool
	below *[Chunk]cell // decides by the next byte; nil = in does
}

func newTree(in bool) tree {
	t := make(tree, roots/2*Chunk)
	for i := range t {
		t[i].in = in
	}
	return t
}

// add puts a prefix in; all shorter ones are in.
func (t tree) add(p netip.Prefix, in bool) {
	addr, bits := p.Addr().AsSlice(), p.Bits()
	cells, at := []cell(t), int(addr[0])<<8|int(addr[1])
	depth := 16
	for next := 2; bits > depth; next++ {
		c := &cells[at]
		if c.below == nil {
			c.below = new([Chunk]cell)
			for i := range c.below {
				c.below[i].in = c.in
			}
		}
		cells, at = c.below[:], int(addr[next])
		depth += 8
	}
	for i := at; i < at+1<<(depth-bits); i++ {
		cells[i].in = in
	}
}

// writer numbers the chunks of trees.
type writer struct {
	trie  Trie
	known map[[Chunk]uint16]uint16
	full  bool
}

func (w *writer) write(c cell) uint16 {
	if c.below == nil {
		return leaf(c.in)
	}
	var chunk [Chunk]uint16
	same := true
	for i, below := range c.below {
		chunk[i] = w.write(below)
		same = same && chunk[i] == chunk[0]
	}
	if same && chunk[0] <= 1 {
		return chunk[0]
	}
	number, ok := w.known[chunk]
	if ok {
		return number
	}
	if w.full = w.full || len(w.trie)/Chunk > mostChunk; w.full {
		return 0
	}
	number = uint16(len(w.trie) / Chunk)
	w.known[chunk] = number
	w.trie = append(w.trie, chunk[:]...)
	return number
}

func leaf(in bool) uint16 {
	if in {
		return 1
	}
	return 0
}

// Has looks an address up, as the kernel does.
func (t Trie) Has(addr netip.Addr) bool {
	bytes, at := addr.AsSlice(), 0
	if addr.Is6() {
		at = RootIPv6
	}
	e := t[at+int(bytes[0])<<8+int(bytes[1])]
	for next := 2; e > 1; next++ {
		e = t[int(e)*Chunk+int(bytes[next])]
	}
	return e == 1
}
