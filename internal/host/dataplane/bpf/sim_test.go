// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// The schedulers' own source, compiled as an ordinary program (bpf/sim/sim.c),
// is held against the contract: policy.Divide, which has an exact oracle in its
// own tests.

var simulator = sync.OnceValues(func() (string, error) { return compileSimulator("weir-sim") })

// compileSimulator makes the program `name`, with these flags beside the usual ones.
func compileSimulator(name string, flags ...string) (string, error) {
	return compile(name, "sim/sim.c", flags...)
}

// compile makes the program `name` of a file in bpf/.
func compile(name, source string, flags ...string) (string, error) {
	out := filepath.Join(exeDir, name)
	args := append([]string{"-O1", "-g", "-Wall", "-Wno-unused-function", "-o", out, filepath.Join(*sources, source)}, flags...)
	if text, err := exec.Command("clang-19", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", source, err, text)
	}
	return out, nil
}

// traffic is what one class sends, or one flow (or queue) of it.
type traffic struct {
	id       plan.ClassID
	flow     int
	length   int
	window   int           // greedy: packets on their way
	delay    time.Duration // greedy: from a packet's leaving to the next one's coming
	interval time.Duration // of a steady stream, if not 0
	packets  int           // greedy, with a window of 1: its flow is a new one after this many; 0 = never
	tcp      tcpSays       // a sender that has a window for the link and slows down; its round trip is `delay` and the wait
	acks     time.Duration // of an ACK of one connection, to the next, if not 0
	requests bool          // a connection for each request, of 604 bytes; each answer comes after `delay`
}

// tcpSays is what a simulated TCP says of marks.
type tcpSays int

const (
	notTCP   tcpSays = iota
	notECT           // its packets cannot be marked
	ect              // they can, and it slows down as after a loss
	ectDeaf          // they can, and it ignores marks
	ectDCTCP         // they can, and it slows down by the part of those that are marked
)

// simulation writes the simulator's commands.
type simulation struct {
	bytes.Buffer
	link    plan.Link
	classes []plan.Class
	program func() (string, error)
	shards  int // 0 = one qdisc, without what shards need
}

func simulate(link plan.Link, classes ...plan.Class) *simulation {
	s := &simulation{link: link, classes: classes, program: simulator}
	s.setLink()
	for _, c := range classes {
		s.setClass(c)
	}
	return s
}

func (s *simulation) setLink() {
	heaviest := uint32(1)
	for _, c := range s.classes {
		heaviest = max(heaviest, c.Weight)
	}
	l := linkConfig(s.link, heaviest)
	fmt.Fprintln(s, "link", l.LinkCost, l.BatchNs, l.Quantum, l.BulkBatchNs, l.BulkQuantum, l.ShareShift, l.TotalCredit, l.LimitBytes, l.Overhead, l.Least, l.Cells, l.FromIp, l.Framed)
}

func (s *simulation) setClass(class plan.Class) {
	s.configure(class.ID, classConfig(class, s.link))
}

func (s *simulation) configure(id plan.ClassID, c qdiscWeirClassConfig) {
	fmt.Fprintln(s, "class", id, c.ShareCost, c.FloorCost, c.CeilCost, c.Weight, c.MinCredit, c.MaxCredit, c.LimitBytes, c.LimitPackets, c.Interval, c.CeilBurst)
	fmt.Fprintln(s, "group", id, c.Group, c.Parent)
	fmt.Fprint(s, "queues ", id, " ", c.Discipline, c.Queues, c.OtherQueue, c.PoliceCost, c.PoliceBurst, c.AqmTarget, c.AqmInterval, c.CeAbove, c.AckFilter)
	for _, q := range c.Queue {
		fmt.Fprint(s, " ", q.Cost, q.LimitPackets, q.Peers, q.Interval, q.ReserveBps)
	}
	fmt.Fprintln(s)
}

func (s *simulation) send(t traffic) {
	id := int(t.id) + t.flow*plan.MaxClasses
	if t.interval > 0 {
		fmt.Fprintln(s, "cbr", id, t.length, t.interval.Nanoseconds())
		return
	}
	if t.tcp != notTCP {
		fmt.Fprintln(s, "tcp", id, t.length, t.delay.Nanoseconds(), int(t.tcp-notECT))
		return
	}
	if t.acks > 0 {
		fmt.Fprintln(s, "acks", id, t.acks.Nanoseconds())
		return
	}
	if t.requests {
		fmt.Fprintln(s, "request", id, t.delay.Nanoseconds())
		return
	}
	if t.packets > 0 {
		fmt.Fprintln(s, "client", id, t.length, t.delay.Nanoseconds(), t.packets)
		return
	}
	fmt.Fprintln(s, "greedy", id, t.length, t.window, t.delay.Nanoseconds())
}

// settling is how long traffic runs before it is measured.
const settling = time.Second

func (s *simulation) stop(id plan.ClassID) { s.stopFlow(id, 0) }
func (s *simulation) stopFlow(id plan.ClassID, flow int) {
	fmt.Fprintln(s, "off", int(id)+flow*plan.MaxClasses)
}
func (s *simulation) run(d time.Duration) { fmt.Fprintln(s, "run", d.Nanoseconds()) }
func (s *simulation) trace(on int)        { fmt.Fprintln(s, "trace", on) }
func (s *simulation) settle()             { s.run(settling) }

// phase is what one run of the simulator measured.
type phase struct {
	sent             map[plan.ClassID]float64 // bytes
	dropped          map[plan.ClassID]uint64
	longest          map[plan.ClassID]time.Duration
	flows            map[traffic]flowResult // by id and flow alone
	total            float64
	timers           int
	ahead            time.Duration
	divisions, alone int                          // of shards: how often the link was divided since the beginning; 1 + the one that has it alone
	left             map[plan.ClassID][]departure // while traced
	delays           map[uint32]*delay.Histogram  // asked for after it, by delayKey
	waits            map[plan.ClassID]waitTimes   // asked for after it
	answers          map[traffic][]time.Duration  // while traced: how long each request took, by id and flow alone
}

// waitTimes is for how long packets of a class have waited since it began, and what it sent
// meanwhile.
type waitTimes struct {
	time  time.Duration
	bytes uint64
}

// departure is a packet that left.
type departure struct {
	at, born time.Duration
	id       plan.ClassID
	flow     int
	length   int
	order    int           // among all departures
	waited   time.Duration // with a line behind: behindLine
}

// flowResult is what one flow of a class did in a phase.
type flowResult struct {
	sent    float64 // bytes
	dropped uint64
	longest time.Duration
	marked  uint64
}

// flow is what flow number n of class id did.
func (p phase) flow(id plan.ClassID, n int) flowResult { return p.flows[traffic{id: id, flow: n}] }

// rate is what class id sent per second, in bits.
func (p phase) rate(id plan.ClassID, over time.Duration) float64 {
	return p.sent[id] * 8 / over.Seconds()
}

// command returns the program and its arguments.
func (s *simulation) command() ([]string, error) {
	if s.shards > 0 {
		return shardSimulator()
	}
	path, err := s.program()
	return []string{path, s.link.Scheduler}, err
}

// output runs the simulator and returns what it prints.
func (s *simulation) output(t interface{ Fatalf(string, ...any) }) []byte {
	command, err := s.command()
	if err != nil {
		t.Fatalf("%v", err)
	}
	// It takes milliseconds. The limit is for one that never ends.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(s.Bytes())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("simulator: %v: %s\ninput:\n%s", err, stderr.String(), s.String())
	}
	return out
}

func (s *simulation) result(t interface{ Fatalf(string, ...any) }) []phase {
	out := s.output(t)
	var phases []phase
	p := newPhase()
	order := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var source int
		var sent, dropped, waiting, longest, marked uint64
		line := lines.Text()
		if strings.HasPrefix(line, "class") {
			fmt.Sscanf(line, "class %d sent %d dropped %d waiting %d longest %d marked %d", &source, &sent, &dropped, &waiting, &longest, &marked)
			id := plan.ClassID(source % plan.MaxClasses)
			p.sent[id] += float64(sent)
			p.dropped[id] += dropped
			p.longest[id] = max(p.longest[id], time.Duration(longest))
			p.flows[traffic{id: id, flow: source / plan.MaxClasses}] = flowResult{float64(sent), dropped, time.Duration(longest), marked}
			continue
		}
		if strings.HasPrefix(line, "left") {
			var d departure
			fmt.Sscanf(line, "left %d %d %d %d", &source, &d.at, &d.length, &d.born)
			id := plan.ClassID(source % plan.MaxClasses)
			d.id, d.flow, d.order = id, source/plan.MaxClasses, order
			order++
			p.left[id] = append(p.left[id], d)
			continue
		}
		if strings.HasPrefix(line, "divisions") {
			fmt.Sscanf(line, "divisions %d alone %d", &p.divisions, &p.alone)
			continue
		}
		if strings.HasPrefix(line, "delay") {
			var key uint32
			var bin int
			var packets uint64
			fmt.Sscanf(line, "delay %d %d %d", &key, &bin, &packets)
			counted := phases[len(phases)-1].delays
			if counted[key] == nil {
				counted[key] = &delay.Histogram{}
			}
			counted[key][bin] = packets
			continue
		}
		if strings.HasPrefix(line, "waits") {
			var w waitTimes
			fmt.Sscanf(line, "waits %d %d %d", &source, &w.time, &w.bytes)
			phases[len(phases)-1].waits[plan.ClassID(source)] = w
			continue
		}
		if strings.HasPrefix(line, "answer") {
			var took time.Duration
			fmt.Sscanf(line, "answer %d %d", &source, &took)
			flow := traffic{id: plan.ClassID(source % plan.MaxClasses), flow: source / plan.MaxClasses}
			p.answers[flow] = append(p.answers[flow], took)
			continue
		}
		var ahead uint64
		fmt.Sscanf(line, "total sent %d timers %d most_ahead %d", &sent, &p.timers, &ahead)
		p.total, p.ahead = float64(sent), time.Duration(ahead)
		phases, p = append(phases, p), newPhase()
	}
	return phases
}

func newPhase() phase {
	return phase{
		sent: map[plan.ClassID]float64{}, dropped: map[plan.ClassID]uint64{}, longest: map[plan.ClassID]time.Duration{},
		flows: map[traffic]flowResult{}, left: map[plan.ClassID][]departure{},
		answers: map[traffic][]time.Duration{}, delays: map[uint32]*delay.Histogram{},
		waits: map[plan.ClassID]waitTimes{},
	}
}

func fairLink(capacity policy.Rate) plan.Link {
	return plan.Link{Device: "up0", Capacity: capacity, Reserve: 1, Scheduler: plan.SchedulerFair}
}

const frames = 1514

// TestFairHoldsTheContract draws links, policies and traffic at random.
func TestFairHoldsTheContract(t *testing.T) {
	defer drawing("100", "10000")()
	rapid.Check(t, func(t *rapid.T) {
		capacity := policy.Rate(rapid.SampledFrom([]uint64{5e6, 20e6, 100e6, 1e9}).Draw(t, "capacity"))
		classes, sharers, sources := drawClasses(t, capacity)
		s := simulate(fairLink(capacity), classes...)
		for _, src := range sources {
			s.send(src)
		}
		s.settle()
		over := time.Duration(float64(1000*frames*8*len(classes)) / float64(capacity) * 1e9)
		over = max(over, 2*time.Second)
		s.run(over)
		got := s.result(t)[1]
		want := policy.Divide(capacity, sharers)
		for i, c := range classes {
			rate := got.rate(c.ID, over)
			ideal := want.Shares[i].Bps
			if wrong := s.offItsOwn(c, rate, ideal, over); wrong != "" {
				t.Fatalf("class %d: %.3f Mbit/s, ideal %.3f of %v (%s): %s\n%s", c.ID, rate/1e6, ideal/1e6, capacity, want.Shares[i].Binds, wrong, s)
			}
			if c.Max > 0 && rate > float64(c.Max)*1.01+frames*8*2/over.Seconds() {
				t.Fatalf("class %d: %.3f Mbit/s above its max of %v\n%s", c.ID, rate/1e6, c.Max, s)
			}
		}
		if got.total*8 > float64(capacity)*(over.Seconds()+0.001)+2*frames*8 { // one batch and a packet
			t.Fatalf("link carried %.3f of %.3f Mbit/s\n%s", got.total*8/over.Seconds()/1e6, float64(capacity)/1e6, s)
		}
	})
}

// offItsOwn says what is wrong with a class's rate over some time, by the class's own size: it may
// be off by 1 % of what the contract gives it, or by one batch a second, or one frame where that is
// more; and it may lack 2 % of its min, or two frames.
func (s *simulation) offItsOwn(c plan.Class, rate, ideal float64, over time.Duration) string {
	batch := max(float64(s.link.Capacity)/8*float64(linkConfig(s.link, 1).BulkBatchNs)/1e9, frames) * 8 // bit/s, of one a second
	if off := math.Abs(rate - ideal); off > max(0.01*ideal, batch) {
		return fmt.Sprintf("off by %.2f %% of its own, a batch a second is %.2f %%", off/ideal*100, batch/ideal*100)
	}
	if least := min(float64(c.Min), ideal); rate < least-max(0.02*least, 2*frames*8/over.Seconds()) {
		return fmt.Sprintf("below its min of %v", c.Min)
	}
	return ""
}

// drawClasses draws up to 8 classes whose mins fit, and traffic for each.
func drawClasses(t *rapid.T, capacity policy.Rate) (classes []plan.Class, sharers []policy.Sharer, sources []traffic) {
	n := rapid.IntRange(1, 8).Draw(t, "classes")
	room := float64(capacity)
	for i := 1; i <= n; i++ {
		c, sharer, src := drawClass(t, plan.ClassID(i), capacity, &room)
		classes, sharers, sources = append(classes, c), append(sharers, sharer), append(sources, src)
	}
	return classes, sharers, sources
}

// drawClass draws a class, whose min takes something of the room, and its traffic:
// most take all they can get, some send a steady stream.
func drawClass(t *rapid.T, id plan.ClassID, capacity policy.Rate, room *float64) (plan.Class, policy.Sharer, traffic) {
	c := plan.Class{ID: id, Name: fmt.Sprint("c", id), Weight: uint32(rapid.IntRange(1, 10).Draw(t, "weight"))}
	c.Discipline = rapid.SampledFrom([]discipline.Name{discipline.FIFO, discipline.SFQ}).Draw(t, "discipline")
	if *room > 0 && rapid.IntRange(0, 2).Draw(t, "min?") == 0 {
		c.Min = policy.Rate(*room * rapid.Float64Range(0.02, 0.7).Draw(t, "min"))
		*room -= float64(c.Min)
	}
	if rapid.IntRange(0, 3).Draw(t, "max?") == 0 {
		low := math.Max(float64(c.Min), float64(capacity)*0.02)
		c.Max = policy.Rate(low + (float64(capacity)-low)*rapid.Float64Range(0, 1).Draw(t, "max"))
	}
	sharer := policy.Sharer{Weight: c.Weight, Min: c.Min, Max: c.Max, Demand: policy.Unlimited}
	src := traffic{id: c.ID, length: rapid.SampledFrom([]int{200, 1000, frames}).Draw(t, "length")}
	if rapid.IntRange(0, 3).Draw(t, "steady?") == 0 {
		demand := float64(capacity) * rapid.Float64Range(0.001, 1.5).Draw(t, "demand")
		src.interval = time.Duration(float64(src.length*8) / demand * 1e9)
		sharer.Demand = policy.Rate(float64(src.length*8) / src.interval.Seconds())
	} else {
		// TCP keeps a millisecond of its rate in the queue (small queues).
		src.window = 2 + int(float64(capacity)*1e-3/8/float64(src.length))
		src.delay = time.Duration(rapid.IntRange(10, 300).Draw(t, "delay")) * time.Microsecond
	}
	return c, sharer, src
}

// TestMinOfASmallWindow: a sender whose few packets are gone before its turn is over is back within
// microseconds, with what it is owed.
func TestMinOfASmallWindow(t *testing.T) {
	const capacity, least, over = policy.Rate(100e6), policy.Rate(26e6), 10 * time.Second
	for _, parent := range []plan.ClassID{0, 1} {
		for window := 2; window <= 6; window++ { // 2: TCP's small queues
			t.Run(fmt.Sprintf("parent %d, window %d", parent, window), func(t *testing.T) {
				promised := plan.Class{ID: 11, Name: "promised", Weight: 5, Min: least, Parent: parent}
				classes := []plan.Class{{ID: 1, Name: "g", Weight: 2, Min: 41e6, Group: true}, promised}
				for i, weight := range []uint32{8, 8, 8, 6} {
					classes = append(classes, plan.Class{ID: plan.ClassID(12 + i), Name: fmt.Sprint("in", i), Weight: weight, Parent: 1})
				}
				for i, weight := range []uint32{3, 5, 4} {
					classes = append(classes, plan.Class{ID: plan.ClassID(16 + i), Name: fmt.Sprint("out", i), Weight: weight})
				}
				s := simulate(fairLink(capacity), classes...)
				for _, c := range classes[1:] {
					s.send(traffic{id: c.ID, length: frames, window: 20, delay: 50 * time.Microsecond})
				}
				s.send(traffic{id: promised.ID, length: frames, window: window, delay: 50 * time.Microsecond})
				s.settle()
				s.run(over)
				if rate := s.result(t)[1].rate(promised.ID, over); rate < 0.999*float64(least) {
					t.Errorf("it has %.3f of its %v", rate/1e6, least)
				}
			})
		}
	}
}
