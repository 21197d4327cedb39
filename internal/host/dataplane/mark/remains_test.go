// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/bypass"
	"weir/internal/host/dataplane/mark/group"
	"weir/internal/host/dataplane/mark/marktest"
)

// A socket that outlives its cgroup counts for the class of its workload until it is closed, for
// the next agent too: of a workload that is known by its cgroup, and of one with devices. It
// cannot be told to send past the qdisc either.
func TestSocketsOutliveTheirCgroup(t *testing.T) {
	for name, sockets := range map[string]bool{"cgroup": false, "devices": true} {
		t.Run(name, func(t *testing.T) {
			netnstest.Enter(t)
			opts := netnstest.Options(t)
			m := newMarker(t, opts, "tcx")
			port := plan.Port{Cgroup: marktest.Cgroup(t), Sockets: sockets, Class: 6}
			state := plan.State{Classes: []plan.Class{{ID: 0}, {ID: 6}}, Ports: []plan.Port{port}}
			attachTo(t, m, port)
			id := cgroupID(t, port.Cgroup)
			want, err := m.Sockets(state)
			if err != nil || want.Owners[id] != 6 || want.Sealed == sockets {
				t.Fatalf("sockets %+v, %v", want, err)
			}
			open := marktest.SocketOf(t, port.Cgroup)
			if err := os.Remove(port.Cgroup); err != nil {
				t.Fatal(err)
			}
			state.Ports = nil
			wantPorts(t, m)
			for range 2 { // the second time another agent
				if got, err := m.Sockets(state); err != nil || got.Owners[id] != 6 || got.Levels != want.Levels {
					t.Errorf("after its end: %+v, %v; want %+v", got, err, want)
				}
				if bound, err := m.bypass().IsBound(id); err != nil || bypass.Unsupported() == nil && bound == sockets {
					t.Errorf("refused to send past the qdisc: %v, %v", bound, err)
				}
				if got, err := m.Sockets(plan.State{Classes: state.Classes[:1]}); err != nil || got.Owners[id] != 0 {
					t.Errorf("without its class: %+v, %v", got, err)
				}
				m = newMarker(t, opts, "tcx")
			}
			open.Close()
			until(t, func() bool {
				got, err := m.Sockets(state)
				return err == nil && got.Owners[id] == 0
			})
			wantPorts(t, m)
			if bound, err := m.bypass().IsBound(id); err != nil || bypass.Unsupported() == nil && bound {
				t.Errorf("still refused: %v, %v", bound, err)
			}
			leavesNothing(t, m, opts)
		})
	}
}

// A workload that ends is detached before its cgroup is removed. Where processes enter such a
// cgroup later, it is let go.
func TestCgroupWithoutProcesses(t *testing.T) {
	netnstest.Enter(t)
	opts := netnstest.Options(t)
	m := newMarker(t, opts, "tcx")
	port := plan.Port{Cgroup: marktest.Cgroup(t), Class: 6}
	state := plan.State{Classes: []plan.Class{{ID: 0}, {ID: 6}}}
	attachTo(t, m, port)
	id := cgroupID(t, port.Cgroup)
	open := marktest.SocketOf(t, port.Cgroup)
	defer open.Close()
	if err := m.Detach(port); err != nil {
		t.Fatal(err)
	}
	wantPorts(t, m)
	if got, err := m.Sockets(state); err != nil || got.Owners[id] != 6 {
		t.Errorf("after its end: %+v, %v", got, err)
	}
	attachTo(t, m, port) // it begins again
	wantPorts(t, m, port)
	if err := m.Detach(port); err != nil {
		t.Fatal(err)
	}
	enter(t, port.Cgroup)
	if got, err := m.Sockets(state); err != nil || got.Owners[id] != 0 {
		t.Errorf("with other processes in it: %+v, %v", got, err)
	}
	leavesNothing(t, m, opts)
}

// The cgroups that are gone take no place from those of the plan, and those of one workload none
// from what is left of another.
func TestRemainsLeaveRoom(t *testing.T) {
	gone := []owned{{id: 9}, {id: 7}, {id: 8}, {id: 10, class: 2}, {id: 5, class: 3}, {id: 11, class: 2}}
	for room, want := range map[int][]uint64{-1: {}, 0: {}, 2: {5, 7}, 3: {5, 7, 10}, 4: {5, 7, 10, 8}, 5: {5, 7, 10, 8, 11}, 6: {5, 7, 10, 8, 11, 9}, 9: {5, 7, 10, 8, 11, 9}} {
		got := []uint64{}
		for _, o := range fitting(slices.Clone(gone), room) {
			got = append(got, o.id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("room for %d: %v, want %v", room, got, want)
		}
	}
	// 96 workloads, of which 10 have left sockets in 500 cgroups each.
	many, each := []owned{}, map[plan.ClassID]int{}
	for i := range 5000 {
		many = append(many, owned{id: uint64(1000 + i), class: plan.ClassID(1 + i%10)})
	}
	for _, o := range fitting(many, mostOwners-96) {
		each[o.class]++
	}
	for class := range plan.ClassID(10) {
		if each[class+1] != 400 {
			t.Errorf("class %d has %d places, want 400", class+1, each[class+1])
		}
	}
}

// enter has a process stay in a cgroup until the test ends.
func enter(t *testing.T, path string) {
	t.Helper()
	sleeper := exec.Command("sh", "-c", "echo $$ >"+path+"/cgroup.procs && exec sleep 60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleeper.Process.Kill()
		sleeper.Wait()
	})
	until(t, func() bool { return group.Populated(path) })
}

func attachTo(t *testing.T, m *Marker, port plan.Port) {
	t.Helper()
	if err := m.Attach(port, Marking{}); err != nil {
		t.Fatal(err)
	}
}

// until waits for what the kernel does some time after the last socket is closed.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s")
		}
	}
}

func leavesNothing(t *testing.T, m *Marker, opts dataplane.Options) {
	t.Helper()
	if err := m.CleanupAll(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(opts.BPFFS, "*")); err != nil || len(left) > 0 {
		t.Errorf("left after the cleanup: %v, %v", left, err)
	}
}

// Many cgroups that are gone are read once for all links, and of those that are known only some by
// turns.
func TestLeftoversAreReadByTurns(t *testing.T) {
	netnstest.Enter(t)
	opts := netnstest.Options(t)
	m, other := newMarker(t, opts, "tcx"), newMarker(t, opts, "tcx")
	const number = lookedAt + 30
	state := plan.State{Classes: []plan.Class{{ID: 0}, {ID: 6}}}
	var open []io.Closer
	for range number {
		port := plan.Port{Cgroup: marktest.Cgroup(t), Class: 6}
		attachTo(t, m, port)
		open = append(open, marktest.SocketOf(t, port.Cgroup))
		if err := os.Remove(port.Cgroup); err != nil {
			t.Fatal(err)
		}
	}
	wantPorts(t, m)
	opened := func() int {
		leftovers.Lock()
		defer leftovers.Unlock()
		sum := 0
		for dir, f := range leftovers.folders {
			if strings.HasPrefix(dir, opts.BPFFS) {
				sum += f.opened
			}
		}
		return sum
	}
	ask := func(m *Marker) (owners, pins int) {
		t.Helper()
		before := opened()
		got, err := m.Sockets(state)
		if err != nil {
			t.Fatal(err)
		}
		for id := range got.Owners {
			if id < 1<<63 { // no choice of the agent's
				owners++
			}
		}
		return owners, opened() - before
	}
	ask(m)
	for _, m := range []*Marker{m, other, m} {
		if owners, pins := ask(m); owners != number || pins != 0 {
			t.Errorf("at once: %d of %d, and %d pins were opened", owners, number, pins)
		}
	}
	time.Sleep(freshFor)
	if owners, pins := ask(other); owners != number || pins != lookedAt {
		t.Errorf("later: %d of %d, and %d pins were opened, not %d", owners, number, pins, lookedAt)
	}
	for _, socket := range open {
		socket.Close()
	}
	until(t, func() bool { owners, _ := ask(m); return owners == 0 })
	leavesNothing(t, m, opts)
}
