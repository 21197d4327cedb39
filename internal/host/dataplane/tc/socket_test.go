// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"log/slog"
	"os"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

func TestMain(m *testing.M) {
	marktest.Sender()
	os.Exit(m.Run())
}

// HTB counts the packets of sockets for the class of the cgroup that the socket was made
// in, and those of containers for that of their port, whatever mark, seal and priority
// they set. None goes past all classes.
func TestPacketsOfSockets(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	host := netnstest.Enter(t)
	opts := netnstest.Options(t)
	bed := marktest.New(t, host)
	b, err := New(marktest.Uplink, opts, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	want := bed.State()
	want.Link = plan.Link{Device: marktest.Uplink, Capacity: 1e9, Reserve: 1, Scheduler: plan.SchedulerFair}
	if err := b.Set(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for _, try := range bed.Tries(t) {
		class := try.Class()
		before := sentByAll(t, b)
		bed.Send(t, try)
		after := sentByAll(t, b)
		if after[class] == before[class] {
			t.Errorf("%s: not counted for class %d", try.Name, class)
		}
		for id := range after {
			if id != 0 && id != class && after[id] != before[id] {
				t.Errorf("%s: counted for class %d, want %d", try.Name, id, class)
			}
		}
	}
}

// sentByAll is how many packets each class has sent.
func sentByAll(t *testing.T, b *Backend) map[plan.ClassID]uint64 {
	t.Helper()
	snap, err := b.Counters()
	if err != nil {
		t.Fatal(err)
	}
	sent := map[plan.ClassID]uint64{}
	for id, c := range snap.Classes {
		sent[id] = c.SentPackets
	}
	return sent
}
