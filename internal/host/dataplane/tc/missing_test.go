// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Looking each second for foreign changes costs a small part of a
// processor with 200 workloads (3 % with 1,000); measured in CPU time.
func TestMissingIsCheap(t *testing.T) {
	const workloads = 200
	b := newBed(t, 0)
	b.Opts.StateDir = t.TempDir()
	var batch strings.Builder
	for i := 0; i < workloads; i += 2 {
		fmt.Fprintf(&batch, "link add d%d type veth peer name d%d\n", i, i+1)
	}
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(batch.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Netns.Run("ip", "-batch", file)
	backend := b.backend()
	backend.log = slog.New(slog.DiscardHandler)
	s := b.state()
	for i := range workloads {
		dev, err := net.InterfaceByName(fmt.Sprint("d", i))
		if err != nil {
			t.Fatal(err)
		}
		id := plan.ClassID(i + 1)
		s.Classes = append(s.Classes, plan.Class{ID: id, Name: dev.Name, Weight: 1, Min: policy.Rate(i%5) * mbit / 100})
		s.Ports = append(s.Ports, plan.Port{Device: dev.Name, Ifindex: dev.Index, Class: id})
	}
	b.Set(backend, s)
	const looks = 5
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	from := threadTime(t)
	for range looks {
		if missing, err := backend.Missing(); err != nil || len(missing) > 0 {
			t.Fatalf("missing %q, %v", missing, err)
		}
	}
	cost := (threadTime(t) - from) / looks
	t.Logf("a look at %d workloads costs %v of CPU time", workloads, cost)
	if most := costly(time.Second / 50); cost > most {
		t.Errorf("it costs %v, want %v at most", cost, most)
	}
}
