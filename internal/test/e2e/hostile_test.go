// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/cgroup/cgrouptest"
	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/test/boundtest"
)

// memoryMax is MemoryMax= of deploy/weir.service.
const memoryMax = 2 << 30

// eachRound is how many containers start at once.
const eachRound = 10

// cpuOf returns the CPU time that a process has used so far.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil { // as clock_getcpuclockid makes it
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}

// TestHostileContainers: containers whose names and labels, and those of their images, are drawn
// at random come and go, ten at a time, beside one whose labels are right: 10,000 with -long,
// 1,000 without, and fewer on an emulated CPU. The agent goes on under its unit's MemoryMax, none
// costs it more than 100 ms of CPU time, and the other one keeps its class and its weight.
func TestHostileContainers(t *testing.T) {
	rounds := drawn(10_000, 1000) / eachRound
	h := newHostileBed(t)
	h.round(nil)
	class := h.right(0).Class
	var costs []time.Duration
	again := 0
	for n := range rounds {
		list := h.draw(n)
		cost := h.round(list)
		costs = append(costs, cost)
		if w := h.right(class); w.Policy.Weight != 7 {
			t.Fatalf("round %d: the other's weight is %d", n, w.Policy.Weight)
		}
		if cost > slower()*bound.CPU { // one of them may be at fault
			again++
			for _, c := range list {
				h.alone(c)
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	slices.Sort(costs)
	t.Logf("seed %d: %d containers; a round of %d takes %v of CPU time in the middle and %v at most, and %d rounds were tried one by one; memory %d MB at most of %d; %d lines of the log",
		h.seed, rounds*eachRound, eachRound, costs[len(costs)/2], costs[len(costs)-1], again, h.limit.Most()>>20, memoryMax>>20, strings.Count(h.agent.log.String(), "\n"))
	if killed := h.limit.Killed(t); killed != 0 {
		t.Errorf("the kernel has ended %d processes of the agent", killed)
	}
	before := h.sentBy(class)
	f := h.udp(0, 1, 0.1)
	time.Sleep(time.Second)
	if n := f.stop(); h.sentBy(class)-before < n {
		t.Errorf("%d packets of the other's were sent, and %d counted in its class", n, h.sentBy(class)-before)
	}
}

// hostileBed is a bed with an engine. The process of its first box is the container "right".
type hostileBed struct {
	*bed
	engine *engine
	agent  *agent
	pids   []int
	seed   uint64
	random *rand.Rand
	names  []string
}

func newHostileBed(t *testing.T) *hostileBed {
	t.Helper()
	h := &hostileBed{bed: newBed(t, 1+eachRound, 1), seed: uint64(time.Now().UnixNano()), names: append(policy.AllNames(), "nosuch")}
	h.random = rand.New(rand.NewPCG(h.seed, 44))
	for _, box := range h.boxes {
		p := launch(box, "stay")
		if _, err := p.out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		h.pids = append(h.pids, p.cmd.Process.Pid)
	}
	h.engine = newEngine(t, h.dir+"/engine.sock")
	h.write(fmt.Sprintf("socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {socket: %s/engine.sock}\nlinks: [{device: up0, egress: %dbit}]\nlabels: {images: true, allow: [weight, min, max, group, when, quota, zones, discipline, queues]}\n",
		h.socket(), h.stateDir(), groupName, h.dir, h.capacity))
	h.limit = cgrouptest.Limit(t, memoryMax)
	h.agent = h.start()
	return h
}

// draw returns ten hostile containers.
func (h *hostileBed) draw(round int) (list []container) {
	for i := range eachRound {
		n := round*eachRound + i
		c := container{id: fmt.Sprintf("%064x", n+1), name: fmt.Sprintf("c%d", n), pid: h.pids[1+i], image: "plain", labels: map[string]string{}}
		for name, text := range boundtest.Named(h.random, h.names, bound.Label+64) {
			c.labels["weir."+strings.ReplaceAll(name, "_", "-")] = text
		}
		switch h.random.IntN(20) {
		case 0:
			c.labels["weir."+boundtest.Draw(h.random, 1<<20)] = boundtest.Draw(h.random, 1<<20)
		case 1:
			c.name += boundtest.Draw(h.random, 1<<16)
		case 2:
			c.labels["com.docker.compose.project"] = boundtest.Draw(h.random, 1<<16)
		case 3:
			c.image = fmt.Sprintf("image%d", n)
			h.engine.bake(c.image, c.labels)
		case 4:
			for i := range 200 {
				c.labels[fmt.Sprintf("weir.a%03d", i)] = boundtest.Draw(h.random, bound.Label)
			}
		}
		list = append(list, c)
	}
	return list
}

// round has the engine run these and the right one alone, waits until the agent knows that, and
// returns the CPU time that it took for it.
func (h *hostileBed) round(list []container) time.Duration {
	h.t.Helper()
	before := cpuOf(h.t, h.agent.pid())
	labels := map[string]string{"weir.weight": "7"}
	h.engine.replace(append([]container{{id: strings.Repeat("f", 64), name: "right", pid: h.pids[0], image: "plain", labels: labels}}, list...)...)
	await(h.t, time.Minute, "the agent knows the containers", func() error {
		select {
		case <-h.agent.done:
			h.t.Fatalf("the agent has ended: %.3000s", h.agent.log.String())
		default:
		}
		all, err := h.agent.Workloads(h.t.Context())
		if err != nil {
			return err
		}
		known := 0
		for _, w := range all {
			if w.Kind != "docker" || w.ID == "" { // one that has ended keeps its device, and its min for a while
				continue
			}
			if w.Name != "right" && !slices.ContainsFunc(list, func(c container) bool { return c.id == w.ID }) {
				return fmt.Errorf("%.60q is still there", w.Name)
			}
			known++
		}
		if known != len(list)+1 {
			return fmt.Errorf("%d of %d containers are known", known, len(list)+1)
		}
		return nil
	})
	return cpuOf(h.t, h.agent.pid()) - before
}

// alone holds one container to what one may cost. One that took too long is tried twice more, and
// the least counts.
func (h *hostileBed) alone(c container) {
	h.t.Helper()
	cost := time.Hour
	for try := 0; try < 3 && cost > slower()*bound.CPU; try++ {
		h.round(nil)
		cost = min(cost, h.round([]container{c}))
	}
	if cost > slower()*bound.CPU {
		h.t.Errorf("a container takes %v of CPU time, %v are the most: name %.60q, labels %.600q", cost, slower()*bound.CPU, c.name, c.labels)
	}
}

// right returns the container whose labels are right, which has to have this class, unless that
// is 0, and no note.
func (h *hostileBed) right(class uint16) api.Workload {
	h.t.Helper()
	w := h.agent.workload("right")
	// The test is the container's process, and root.
	if w.State != "active" || !strings.HasPrefix(w.Note, "it has CAP_NET_ADMIN") || w.Class == 0 || class != 0 && w.Class != class {
		h.t.Fatalf("state %s, class %d after %d, %s", w.State, w.Class, class, w.Note)
	}
	return w
}

// sentBy returns the packets that a class has sent.
func (h *hostileBed) sentBy(number uint16) uint64 {
	h.t.Helper()
	return class(h.counters(0), number).SentPackets
}

// drawn returns how many inputs a test draws: so many with -long, fewer without, and a few dozen on
// an emulated CPU, whatever the flag.
func drawn(all, some int) int {
	switch {
	case emulated():
		return some / 10
	case *long:
		return all
	}
	return some
}

// slower is how many times the time of a machine's own CPU an emulated one may take.
func slower() time.Duration {
	if emulated() {
		return 10
	}
	return 1
}

// bake gives an image labels.
func (e *engine) bake(image string, labels map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.images[image] = labels
}
