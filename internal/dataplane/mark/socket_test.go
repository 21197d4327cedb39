// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/dataplane/device/netnstest"
	"weir/internal/dataplane/mark/marktest"
)

func TestMain(m *testing.M) {
	marktest.Sender()
	os.Exit(m.Run())
}

// Whatever mark a socket sets, and whatever way it takes to the link, its packets are
// of the class of the cgroup that it was made in, or of the port that they came by.
func TestSocketsDoNotChooseTheirClass(t *testing.T) {
	t.Run("tcx", func(t *testing.T) { // where a witness can stand behind Weir's program
		host := netnstest.Enter(t)
		m := newMarker(t, netnstest.Options(t), "tcx")
		b := marktest.New(t, host)
		m.self = cgroupID(t, b.Agent)
		for _, port := range b.State().Ports {
			if err := m.Attach(port, Marking{}); err != nil {
				t.Fatal(err)
			}
		}
		up, err := m.conn.Lookup(marktest.Uplink)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.AttachLink(up, b.State()); err != nil {
			t.Fatal(err)
		}
		seen := witness(t, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
		tcIndex := witnessOf(t, skbTCIndex, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
		for _, try := range b.Tries(t) {
			b.Send(t, try)
			if got := seen(); got != try.Mark {
				t.Errorf("%s: mark %#x, want %#x", try.Name, got, try.Mark)
			}
			want, _ := m.mask.Split(try.Mark)
			if got := classOf(m.mask, seen(), tcIndex()); got != want {
				t.Errorf("%s: class %d, want %d (tc_index %#x)", try.Name, got, want, tcIndex())
			}
		}
	})
}

func cgroupID(t *testing.T, path string) uint64 {
	t.Helper()
	group, err := openCgroup(path)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	return group.id
}
