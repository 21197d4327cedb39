// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// Stand attaches the programs once, however many agents and links call it; those of another build,
// or for another carrier, make place for them; a program of another owner that is first stays, and
// End leaves nothing.
func TestStand(t *testing.T) {
	netnstest.Enter(t)
	if err := Unsupported(); err != nil {
		t.Skipf("skipped: this kernel cannot note who asks: %v", err)
	}
	conn, err := device.Open()
	must(t, err)
	defer conn.Close()
	notes := Notes{conn, netnstest.Options(t)}
	dir, err := conn.PinDir(notes.Opts, Folder)
	must(t, err)
	other := accepting(t)
	theirs, err := link.AttachNetfilter(link.NetfilterOptions{
		Program: other, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetLocalIn, Priority: math.MinInt32 + 1})
	must(t, err)
	defer theirs.Close()

	must(t, notes.Stand())
	first := programsIn(t, dir)
	must(t, notes.Stand())
	want := len(places())
	if again := programsIn(t, dir); len(first) != want || !slices.Equal(again, first) {
		t.Errorf("programs %v, then %v; want the same %d", first, again, want)
	}
	must(t, os.Rename(filepath.Join(dir, notes.names()[0]), filepath.Join(dir, linkPin+"former_4")))
	if !notes.Missing() {
		t.Error("a link without its pin is not missed")
	}
	must(t, notes.Stand())
	if now := programsIn(t, dir); len(now) != want || notes.Missing() || slices.Equal(now, first) {
		t.Errorf("programs %v, before %v; want another one in place of that of a former build", now, first)
	}
	notes.Opts.MarkMask = uint32(plan.UsualMask)
	must(t, notes.Stand())
	if now := programsIn(t, dir); len(now) != want || slices.ContainsFunc(now, func(id ebpf.ProgramID) bool { return slices.Contains(first, id) }) {
		t.Errorf("programs %v, before %v; want others, for another carrier", now, first)
	}
	asked := mapOf(t, notes)
	must(t, os.Remove(filepath.Join(dir, mapPin)))
	if !notes.Missing() {
		t.Error("a map without its pin is not missed")
	}
	must(t, notes.Stand())
	if again := mapOf(t, notes); again != asked || notes.Missing() {
		t.Errorf("the map is %d, and the programs that run write map %d", again, asked)
	}

	former, err := ebpf.NewMap(&ebpf.MapSpec{Name: Map, Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, mapPin)))
	must(t, former.Pin(filepath.Join(dir, mapPin)))
	must(t, former.Close())
	before := programsIn(t, dir)
	if mapOf(t, notes) == asked || !notes.Missing() {
		t.Error("the map of a former build with another layout stays, or its programs do")
	}
	must(t, notes.Stand())
	if now := programsIn(t, dir); len(now) != want || slices.ContainsFunc(now, func(id ebpf.ProgramID) bool { return slices.Contains(before, id) }) || notes.Missing() {
		t.Errorf("programs %v, before %v; want others, for the new map", now, before)
	}

	must(t, notes.End())
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if info, err := theirs.Info(); err != nil || info.Netfilter() == nil || info.Netfilter().Priority != math.MinInt32+1 {
		t.Errorf("the other owner's link is %+v, %v", info, err)
	}
	must(t, notes.End())
}

// Where the kernel can call programs at its functions, and nobody forbids that, it does at those
// that answer. Else the gap says so.
func TestFunctionsAreWatched(t *testing.T) {
	symbols, err := os.ReadFile("/proc/kallsyms")
	must(t, err)
	err = Unwatched()
	if able := strings.Contains(string(symbols), " register_ftrace_direct\n"); able && !errors.Is(err, unix.EPERM) {
		must(t, err)
	}
	if (Gap() == "") != (err == nil) {
		t.Errorf("Unwatched says %v, and the gap is %q", err, Gap())
	}
}

// accepting is another owner's program.
func accepting(t *testing.T) *ebpf.Program {
	t.Helper()
	spec, err := loadAnswers()
	must(t, err)
	askers, err := ebpf.NewMap(spec.Maps[Map])
	must(t, err)
	defer askers.Close()
	programs, err := load(plan.Carrier{}, 0, askers, false)
	must(t, err)
	t.Cleanup(func() { programs.Close() })
	return programs.WeirNoteIn
}

// mapOf is the map that qdiscs and programs at links read.
func mapOf(t *testing.T, notes Notes) ebpf.MapID {
	t.Helper()
	askers, err := notes.Askers()
	must(t, err)
	defer askers.Close()
	info, err := askers.Info()
	must(t, err)
	id, _ := info.ID()
	return id
}

// programsIn are the programs of the pinned links, in the order of their names.
func programsIn(t *testing.T, dir string) (ids []ebpf.ProgramID) {
	t.Helper()
	pins, err := filepath.Glob(filepath.Join(dir, linkPin+"*"))
	must(t, err)
	for _, pin := range pins {
		l, err := link.LoadPinnedLink(pin, nil)
		must(t, err)
		info, err := l.Info()
		must(t, err)
		ids = append(ids, info.Program)
		must(t, l.Close())
	}
	return ids
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
