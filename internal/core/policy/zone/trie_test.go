// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// drawAddr draws an address close to others, so that prefixes lie in each other.
func drawAddr(t *rapid.T) netip.Addr {
	few := rapid.SampledFrom([]byte{0, 1, 10, 127, 128, 200, 255})
	bytes := make([]byte, rapid.SampledFrom([]int{4, 16}).Draw(t, "bytes"))
	for i := range bytes {
		bytes[i] = few.Draw(t, "byte")
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

func drawPrefixes(t *rapid.T) Prefixes {
	prefix := rapid.Custom(func(t *rapid.T) netip.Prefix {
		addr := drawAddr(t)
		p, _ := addr.Prefix(rapid.IntRange(1, addr.BitLen()).Draw(t, "bits"))
		return p
	})
	return Prefixes{List: sorted(rapid.SliceOfN(prefix, 0, 30).Draw(t, "prefixes")), Connected: rapid.Bool().Draw(t, "connected")}
}

// TestTrie: the trie has an address exactly if net/netip's longest match does.
func TestTrie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, out := drawPrefixes(t), drawPrefixes(t)
		out.List = slices.DeleteFunc(out.List, func(p netip.Prefix) bool { return slices.Contains(in.List, p) })
		out.Connected = out.Connected && !in.Connected
		connected := drawPrefixes(t).List
		zones := []Zone{{Name: "in", Prefixes: in, Egress: 1}, {Name: "out", Prefixes: out}}
		area := AreaOf(zones, "in", func(z Zone) uint64 { return z.Egress })
		area.Rest = rapid.Bool().Draw(t, "rest")
		trie, ok := area.Compile(connected)
		if !ok {
			t.Fatal("some prefixes are too many")
		}
		for range 20 {
			addr := drawAddr(t)
			want := area.Rest
			if z := Of(zones, addr, connected); z != nil && !z.Default() {
				want = z.Name == "in"
			}
			if got := trie.Has(addr); got != want {
				t.Fatalf("%s: %v, and the longest prefix says %v", addr, got, want)
			}
		}
	})
}

// TestTableIsSmall: equal chunks are stored once.
func TestTrieIsSmall(t *testing.T) {
	var p Prefixes
	for i := range 10_000 {
		p.List = append(p.List, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i / 200), byte(i % 200), byte(i / 7), byte(i * 31)}), 32))
	}
	trie, ok := Area{In: p}.Compile(nil)
	if chunks := len(trie)/Chunk - roots; !ok || chunks > 11_000 {
		t.Errorf("10,000 addresses take %d chunks", chunks)
	}
}

// TestTableTooLarge: what entries cannot number is said, and not cut off.
func TestTrieTooLarge(t *testing.T) {
	var p Prefixes
	for i := range MostPrefixes / 3 {
		for place, at := range []int{i, i >> 6, i >> 12} { // three entries that no other chunk has
			a := [16]byte{0x20, 0, byte(i >> 16), byte(i >> 8), byte(i), 0, byte(place<<6 | at&63)}
			p.List = append(p.List, netip.PrefixFrom(netip.AddrFrom16(a), 56))
		}
	}
	if _, ok := (Area{In: p}).Compile(nil); ok {
		t.Error("a trie of more than 65,535 chunks was made")
	}
}

// TestTrieOfMostPrefixes: as many prefixes as a zone may have, of any length, cost little more than
// the trie that is kept, which has 33 MB at most.
func TestTrieOfMostPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 5))
	for _, tt := range []struct{ bytes, bits int }{{4, 32}, {4, 24}, {16, 64}, {16, 128}} {
		var list []netip.Prefix
		for range MostPrefixes {
			bytes := make([]byte, tt.bytes)
			for i := range tt.bits / 8 {
				bytes[i] = byte(r.Uint32())
			}
			addr, _ := netip.AddrFromSlice(bytes)
			list = append(list, netip.PrefixFrom(addr, tt.bits))
		}
		area := Area{In: Prefixes{List: sorted(list)}}
		if cost := boundtest.Measure(func() { area.Compile(nil) }); cost.Bytes > bound.Memory {
			t.Errorf("/%d: %d MB allocated in %v", tt.bits, cost.Bytes>>20, cost.CPU)
		}
	}
}
