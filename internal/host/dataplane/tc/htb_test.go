// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/framing"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// What HTB is told it must answer, to the byte: otherwise every Set would change
// every class.
func TestSettingsComeBack(t *testing.T) {
	b := newBed(t, 0)
	backend := b.backend()
	dev, err := backend.conn.Lookup("up0")
	if err != nil {
		t.Fatal(err)
	}
	if err := addRoot(backend.conn, dev.Index); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		grant   grant
		framing framing.Framing
	}{
		{"least", grant{rate: 8, ceil: 8, quantum: minQuantum}, framing.Framing{}},
		{"usual", grant{rate: 16_666_666, ceil: 100e6, quantum: 3028}, framing.Framing{}},
		{"overhead", grant{rate: 1e6, ceil: 1e9, quantum: 200000}, framing.Framing{Overhead: 24}},
		{"more than 32 bits of bytes", grant{rate: 40e9, ceil: 100e9, quantum: minQuantum}, framing.Framing{}},
		{"only the ceil is that large", grant{rate: 1e9, ceil: 100e9, quantum: minQuantum}, framing.Framing{Overhead: 4}},
		{"cells", grant{rate: 1e6, ceil: 1e9, quantum: minQuantum}, framing.Framing{Overhead: 40, FromIP: true, Least: 64, Cells: framing.ATM}},
		{"cells of PTM", grant{rate: 65e6, ceil: 1e9, quantum: minQuantum}, framing.Framing{Overhead: 30, FromIP: true, Cells: framing.PTM}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := settingsOf(tt.grant, tt.framing, device.Device{Ethernet: true})
			if err := setClass(backend.conn, dev.Index, 7, want); err != nil {
				t.Fatal(err)
			}
			have, err := listClasses(backend.conn, dev.Index)
			if err != nil {
				t.Fatal(err)
			}
			if got := have[7].settings; got != want {
				t.Errorf("HTB answers %+v\nwas told   %+v", got, want)
			}
		})
	}
}

func TestNegativeOverheadCountsAsNone(t *testing.T) {
	if got := settingsOf(grant{rate: 1e6, ceil: 1e6}, framing.Framing{Overhead: -14}, device.Device{}).Overhead; got != 0 {
		t.Errorf("overhead %d, want 0", got)
	}
}

// TestLineOf: HTB is told of a framing what tc-cake(8) makes of it on each kind of device.
func TestLineOf(t *testing.T) {
	ethernet, tunnel, vlan := device.Device{Ethernet: true}, device.Device{}, device.Device{Ethernet: true, Tag: 4}
	for _, c := range []struct {
		framing string
		dev     device.Device
		want    line
	}{
		{"none", ethernet, line{Layer: linklayerEthernet}},
		{"none", vlan, line{Overhead: 4, Layer: linklayerEthernet}},
		{"24", vlan, line{Overhead: 28, Layer: linklayerEthernet}},
		{"ethernet", ethernet, line{Overhead: 24, Least: 84, Layer: linklayerEthernet}},
		{"ethernet", vlan, line{Overhead: 24, Least: 84, Layer: linklayerEthernet}},
		{"pppoe-ptm", tunnel, line{Overhead: 30, Layer: linklayerEthernet}},
		{"pppoe-llcsnap", tunnel, line{Overhead: 40, Layer: linklayerATM}},
		{"atm 40", ethernet, line{Overhead: 26, Layer: linklayerATM}},
	} {
		f, err := framing.Parse(c.framing)
		if err != nil {
			t.Fatal(err)
		}
		if got := lineOf(f, c.dev); got != c.want {
			t.Errorf("%s on %+v: %+v, want %+v", c.framing, c.dev, got, c.want)
		}
	}
	of := settingsOf(grant{rate: 65e6, ceil: 130e6}, framing.Framing{Cells: framing.PTM}, ethernet)
	if of.Rate != 8e6 || of.Ceil != 16e6 {
		t.Errorf("PTM leaves %d and %d bytes a second of 65 and 130 Mbit/s, want 8 and 16 million", of.Rate, of.Ceil)
	}
}

func TestMinors(t *testing.T) {
	for id := range plan.ClassID(plan.MaxClasses) {
		if back, ok := classOfMinor(classMinor(id)); !ok || back != id {
			t.Fatalf("class %d has minor %#x, which is class %d (%v)", id, classMinor(id), back, ok)
		}
	}
	for _, minor := range []uint32{0, linkMinor, plan.MaxClasses} {
		if id, ok := classOfMinor(minor); ok {
			t.Errorf("minor %#x is class %d, want none", minor, id)
		}
	}
}

func TestLeafPackets(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  string
		limit plan.Limit
		want  uint32
	}{
		{"pfifo by the link's rate", "pfifo", plan.Limit{}, 412},
		{"fq_codel has its own", "fq_codel", plan.Limit{}, 10240},
		{"packets", "fq_codel", plan.Limit{Packets: 30}, 30},
		{"bytes as frames", "pfifo", plan.Limit{Bytes: 15140}, 10},
		{"the smaller of both", "pfifo", plan.Limit{Packets: 5, Bytes: 15140}, 5},
		{"bytes less than a frame", "pfifo", plan.Limit{Bytes: 100}, 1},
	} {
		if got := leafPackets(tt.kind, 100*mbit, tt.limit); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// The classifier, run by the kernel on marks.
func TestClassifier(t *testing.T) {
	netnstest.New(t) // skips without root
	for _, tt := range []struct {
		mask          plan.Mask
		mark, tcIndex uint32
		want          uint32
	}{
		{0, 0x00030001, 0, 0}, // no class: HTB's default
		{0, 0xffffffff, 0x8060, 0x77e10003},
		{0, 0, 0xffff, 0x77e10fff}, // class 4095 in its last queue
		{0xffff0000, 0x00030001, 0, 0x77e10003},
		{0xffff0000, 0x0fff0000, 0, 0x77e10fff},
		{0xffff0000, 0x00000001, 0, 0},
		{0xffff0000, 0x00030001, 0x80a3, 0x77e10005},
		{0x00fff000, 0xff005fff, 0, 0x77e10005},
	} {
		prog, err := loadClassifier(plan.Carrier{Mask: tt.mask})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		if got := runOn(t, prog, tt.mark, tt.tcIndex); got != tt.want {
			t.Errorf("mask %#x, mark %#x, tc_index %#x: class id %#x, want %#x", uint32(tt.mask), tt.mark, tt.tcIndex, got, tt.want)
		}
	}
}

// The messages come from the kernel, but a parser must survive anything.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 1, 0, 'h', 't', 'b', 0})
	f.Add([]byte{12, 0, 2, 128, 8, 0, 1, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, attrs []byte) {
		body := append(make([]byte, 20), attrs...)
		_, _ = parseClass(body)
		_, _ = parseLeaf(body)
	})
}

// Each kind of leaf takes its limit, answers with it, and takes another one.
func TestLeaves(t *testing.T) {
	b := newBed(t, 0)
	backend := b.backend()
	dev, err := backend.conn.Lookup("up0")
	if err != nil {
		t.Fatal(err)
	}
	if err := addRoot(backend.conn, dev.Index); err != nil {
		t.Fatal(err)
	}
	for i, kind := range leafKinds {
		t.Run(kind, func(t *testing.T) {
			id := plan.ClassID(i) // the host's class among them
			some := settingsOf(grant{rate: 1e6, ceil: 1e6, quantum: minQuantum}, framing.Framing{}, device.Device{})
			if err := setClass(backend.conn, dev.Index, classMinor(id), some); err != nil {
				t.Fatal(err)
			}
			limits := []uint32{100, 50}
			if !changeable(kind) {
				limits = limits[:1]
			}
			for _, packets := range limits {
				err := setLeaf(backend.conn, dev.Index, id, kind, packets, 0)
				if errors.Is(err, unix.ENOENT) {
					t.Skipf("skipped: this kernel has no %s", kind)
				}
				if err != nil {
					t.Fatal(err)
				}
				leaves, err := listLeaves(backend.conn, dev.Index)
				if err != nil {
					t.Fatal(err)
				}
				if got := leaves[id]; got.kind != kind || got.packets != packets {
					t.Errorf("leaf %+v, want %s of %d packets", got, kind, packets)
				}
			}
		})
	}
}
