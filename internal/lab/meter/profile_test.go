// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSymbols(t *testing.T) {
	const text = `ffffffff81000100 T second
ffffffff81000000 t first.isra.0
ffffffff82000000 D data
ffffffffc0000000 t bpf_prog_0123456789abcdef_weir_enqueue	[bpf]
ffffffffc0000400 t bpf__Qdisc_ops_enqueue	[bpf]
`
	names, err := readSymbols(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[uint64]string{
		0x7fff00001000:     userSpace,
		0xffffffff80ffffff: userSpace, // before the first function
		0xffffffff81000000: "first.isra.0",
		0xffffffff810000ff: "first.isra.0",
		0xffffffff81000100: "second",
		0xffffffffc00003ff: "weir_enqueue (BPF)",
		0xffffffffc0000400: "bpf__Qdisc_ops_enqueue",
		0xffffffffffffffff: "bpf__Qdisc_ops_enqueue",
	} {
		if got := names.of(address); got != want {
			t.Errorf("%#x is in %q, want %q", address, got, want)
		}
	}
	for _, hidden := range []string{"", "0000000000000000 T first\n0000000000000000 T second\n", "x T first\n"} {
		if _, err := readSymbols(strings.NewReader(hidden)); err == nil {
			t.Errorf("%q is taken for the kernel's functions", hidden)
		}
	}
}

// record is one of a ring's.
func record(kind uint32, body ...byte) []byte {
	head := make([]byte, 8)
	binary.NativeEndian.PutUint32(head, kind)
	binary.NativeEndian.PutUint16(head[6:], uint16(8+len(body)))
	return append(head, body...)
}

func TestSamples(t *testing.T) {
	address := func(a uint64) []byte { return binary.NativeEndian.AppendUint64(nil, a) }
	sample := func(a uint64) []byte { return record(unix.PERF_RECORD_SAMPLE, address(a)...) }
	got, err := samples(append(append(sample(5), record(unix.PERF_RECORD_UNTHROTTLE, address(0)...)...), sample(7)...))
	if err != nil || len(got) != 2 || got[0] != 5 || got[1] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	for name, ring := range map[string][]byte{
		"no sample":       nil,
		"lost samples":    append(sample(5), record(unix.PERF_RECORD_LOST, address(1)...)...),
		"a throttled one": append(sample(5), record(unix.PERF_RECORD_THROTTLE, address(1)...)...),
		"a broken record": {1, 0, 0, 0, 0, 0, 0, 0},
	} {
		if got, err := samples(ring); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
