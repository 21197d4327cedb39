// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"cmp"
	"hash/maphash"
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
	all := make([]entry, 0, len(a.In.List)+len(a.Out.List)+len(connected))
	for _, p := range a.In.List {
		all = append(all, entry{p, bytesOf(p), true})
	}
	for _, p := range a.Out.List {
		all = append(all, entry{p, bytesOf(p), false})
	}
	for _, p := range connected {
		if (a.In.Connected || a.Out.Connected) && !slices.Contains(a.In.List, p) && !slices.Contains(a.Out.List, p) {
			all = append(all, entry{p, bytesOf(p), a.In.Connected})
		}
	}
	// IPv4 goes before IPv6, and a prefix before what lies in it.
	slices.SortStableFunc(all, func(x, y entry) int {
		return cmp.Or(x.prefix.Addr().Compare(y.prefix.Addr()), x.prefix.Bits()-y.prefix.Bits())
	})
	four := slices.IndexFunc(all, func(e entry) bool { return e.prefix.Addr().Is6() })
	if four < 0 {
		four = len(all)
	}
	w := writer{trie: make(Trie, roots*Chunk, (roots+chunksOf(all))*Chunk), known: map[uint64]uint16{}}
	for i, list := range [][]entry{all[:four], all[four:]} {
		root := make([]uint16, RootIPv6)
		w.fill(root, list, 0, 2, a.Rest)
		copy(w.trie[i*RootIPv6:], root)
	}
	if cap(w.trie) > 2*len(w.trie) {
		w.trie = slices.Clone(w.trie)
	}
	return w.trie, !w.full
}

// entry is a prefix that is in the area or not.
type entry struct {
	prefix netip.Prefix
	addr   [16]byte
	in     bool
}

func bytesOf(p netip.Prefix) (b [16]byte) {
	if p.Addr().Is4() {
		four := p.Addr().As4()
		copy(b[:], four[:])
		return b
	}
	return p.Addr().As16()
}

// byteAt returns the number of the cell that an entry begins at, of a level of some bytes of
// addresses.
func (e entry) byteAt(from, to int) (n int) {
	for _, b := range e.addr[from:to] {
		n = n<<8 | int(b)
	}
	return n
}

// chunksOf returns how many chunks a list of entries has at most.
func chunksOf(list []entry) (n int) {
	for _, e := range list {
		n += max(0, (e.prefix.Bits()-1)/8-1)
	}
	return min(n, mostChunk+1)
}

// writer makes the chunks of a trie, one at a time: a whole tree of 100,000 addresses would have
// some GB.
type writer struct {
	trie  Trie
	known map[uint64]uint16 // numbers of chunks, by the hash of what is in them
	full  bool
}

var seed = maphash.MakeSeed()

// fill writes the cells of one level, which decide by some bytes of an address. The entries are
// those that differ from what holds around them, in.
func (w *writer) fill(cells []uint16, entries []entry, from, to int, in bool) {
	for i := range cells {
		cells[i] = leaf(in)
	}
	for _, e := range entries { // the outer before the inner
		if spare := 8*to - e.prefix.Bits(); spare >= 0 {
			at := e.byteAt(from, to)
			for i := at; i < at+1<<spare; i++ {
				cells[i] = leaf(e.in)
			}
		}
	}
	for begin := 0; begin < len(entries) && !w.full; {
		end, at := begin, entries[begin].byteAt(from, to)
		for end < len(entries) && entries[end].byteAt(from, to) == at {
			end++
		}
		for begin < end && entries[begin].prefix.Bits() <= 8*to { // is written; those of the level below follow
			begin++
		}
		if begin < end {
			cells[at] = w.chunk(entries[begin:end], to, cells[at] == leaf(true))
		}
		begin = end
	}
}

// chunk returns what leads to the cells that decide by one byte of an address: the number of a
// chunk of them, or what all of them say.
func (w *writer) chunk(entries []entry, at int, in bool) uint16 {
	var cells [Chunk]uint16
	w.fill(cells[:], entries, at, at+1, in)
	if first := cells[0]; first <= leaf(true) && !slices.ContainsFunc(cells[:], func(c uint16) bool { return c != first }) {
		return first
	}
	hash := maphash.Comparable(seed, cells)
	number, known := w.known[hash]
	if known && slices.Equal(w.trie[int(number)*Chunk:][:Chunk], cells[:]) {
		return number
	}
	if w.full = w.full || len(w.trie)/Chunk > mostChunk; w.full {
		return 0
	}
	number = uint16(len(w.trie) / Chunk)
	w.known[hash] = number
	w.trie = append(w.trie, cells[:]...)
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
