// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

var (
	killCount  = flag.Int("kills", 200, "with -long: drawn kills of TestDrawnKills")
	killFirst  = flag.Int("first-kill", 0, "the number of the first of them, to go on where another run has ended")
	killBudget = flag.Duration("kill-time", 0, "begin no further one after this time; 0 = no limit")
)

// draw is a part that is killed during a step of a move.
type draw struct {
	number  int
	engine  wire.EngineName
	network string
	part    string
	target  bool          // of the target's
	step    string        // during this step of it
	after   time.Duration // the step's beginning
}

func (d draw) String() string {
	side := "source"
	if d.target {
		side = "target"
	}
	return fmt.Sprintf("%3d %-6s %-7s %-6s of the %s, %4d ms into %s", d.number, d.engine, d.network, d.part, side, d.after.Milliseconds(), d.step)
}

// struck is a move whose node is hit.
type struck struct {
	draw
	from, to *machine
	mu       sync.Mutex
	began    bool
	hit      bool // the part was there
	// An agent's calls are made in its life, and end with it. dead is closed then.
	life context.Context
	cut  context.CancelFunc
	dead chan bool
}

// strike is called when a step begins on a machine. It kills the part if the draw is about this
// step: when the time has come, or as soon as the part is there, unless the step ends before.
func (s *struck) strike(node *machine, step string, ended <-chan bool) {
	victim := s.from
	if s.target {
		victim = s.to
	}
	s.mu.Lock()
	if s.began || victim != node || step != s.step {
		s.mu.Unlock()
		return
	}
	s.began = true
	s.mu.Unlock()
	select {
	case <-time.After(s.after):
	case <-ended:
	}
	for {
		if s.part == "agent" {
			s.cut()
			close(s.dead)
			s.setHit()
			return
		}
		if victim.kill(s.part) {
			s.setHit()
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *struck) setHit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hit = true
}

// hitNode is a machine in a move of struck's. An agent that is killed makes no further call and
// learns no answer.
type hitNode struct {
	*struck
	m *machine
}

func (n hitNode) Name() string { return n.m.name }
func (n hitNode) Facts(ctx context.Context) (migrate.Facts, error) {
	return n.m.now().Facts(ctx)
}
func (n hitNode) Describe(ctx context.Context, name string) (migrate.Container, error) {
	return n.m.now().Describe(ctx, name)
}
func (n hitNode) Lacking(ctx context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	return n.m.now().Lacking(ctx, o)
}

// call makes a call during which the part may be killed.
func (n hitNode) call(step string, do func(ctx context.Context) error) error {
	ended, struckDown := make(chan bool), make(chan bool)
	go func() {
		defer close(struckDown)
		n.strike(n.m, step, ended)
	}()
	err := do(n.life)
	close(ended)
	<-struckDown
	select {
	case <-n.dead:
		if n.target {
			n.m.startAgent()
			n.revived()
			return errors.Join(err, errors.New("the agent does not answer"))
		}
		panic(crash{})
	default:
	}
	return err
}

// revived begins the life of an agent.
func (s *struck) revived() {
	s.life, s.cut = context.WithCancel(context.Background())
	s.dead = make(chan bool)
}

func (n hitNode) Do(_ context.Context, step move.Step, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	agent := n.m.now()
	err = n.call(string(step), func(ctx context.Context) error {
		out, err = agent.Do(ctx, step, o)
		return err
	})
	return out, err
}

func (n hitNode) Send(_ context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (out migrate.StepOutcome, err error) {
	return n.m.now().Send(n.life, p, o, w)
}

func (n hitNode) Receive(_ context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (out migrate.StepOutcome, err error) {
	agent := n.m.now()
	err = n.call("send "+p.String(), func(ctx context.Context) error {
		out, err = agent.Receive(ctx, p, o, r)
		return err
	})
	return out, err
}

// killRun is a row of moves of one container, in each of which a part is killed.
type killRun struct {
	t        *testing.T
	machines []*machine
	at       int // where the container is
	network  string
	journals migrate.Journals
	moves    int
	usual    map[string]time.Duration // of steps
}

func newKillRun(t *testing.T, machines []*machine, network string) *killRun {
	k := &killRun{t: t, machines: machines, network: network, usual: map[string]time.Duration{}}
	k.journals.Dir = t.TempDir()
	k.begin()
	return k
}

// begin starts the container, and moves it there and back without a fault, which shows how long
// each step takes.
func (k *killRun) begin() {
	k.t.Helper()
	k.machines[k.at].engine.start(k.network)
	for range 2 {
		d := draw{part: "none"}
		r, _ := k.move(d)
		if r.State != wire.MoveDone {
			k.t.Fatalf("without a fault: %s: %s; %s%s", r.State, r.Err, r.Warning, steps(r))
		}
		for _, s := range r.Steps {
			k.usual[s.Step] = s.Duration
		}
		k.at = 1 - k.at
		if bad := k.wrong(d, r); len(bad) > 0 {
			k.t.Fatalf("without a fault: %q", bad)
		}
	}
}

// move moves the container with a part killed, and takes the move up again when its driver has
// died.
func (k *killRun) move(d draw) (r migrate.Result, hit bool) {
	k.t.Helper()
	from, to := k.machines[k.at], k.machines[1-k.at]
	s := &struck{draw: d, from: from, to: to}
	s.revived()
	source, target := hitNode{s, from}, hitNode{s, to}
	var p migrate.Plan
	var err error
	k.moves++
	for range 20 { // a connection of the test's is not quite gone
		p, err = migrate.Check(context.Background(), source, target, migrate.Request{Move: fmt.Sprintf("%s-%d", k.network, k.moves), Container: moved})
		if err == nil {
			err = p.Err()
		}
		if err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	from.must(err)
	p.Order.Lease = 8 * time.Second
	j, err := k.journals.Begin(p.Order)
	from.must(err)
	r, err = life(func() (migrate.Result, error) { return migrate.Run(context.Background(), source, target, j, nil) })
	_ = j.Close()
	for range 5 {
		open, listErr := k.journals.Unfinished()
		from.must(listErr)
		if len(open) == 0 {
			break
		}
		if d.part == "agent" && !d.target {
			from.startAgent()
		}
		if d.part == "engine" {
			k.revive()
		}
		s.revived()
		r, err = life(func() (migrate.Result, error) {
			return migrate.Resume(context.Background(), source, target, open[0], nil)
		})
		_ = open[0].Close()
	}
	if err != nil {
		k.t.Errorf("%s: the move has no end: %v", d, err)
	}
	k.revive()
	s.mu.Lock()
	defer s.mu.Unlock()
	return r, s.hit
}

func (k *killRun) revive() {
	for _, m := range k.machines {
		m.engine.revive()
	}
}

// life runs a driver until it has ended or died.
func life(f func() (migrate.Result, error)) (r migrate.Result, err error) {
	defer func() {
		if died := recover(); died != nil {
			if _, ok := died.(crash); !ok {
				panic(died)
			}
			err = errors.New("the driver died")
		}
	}()
	return f()
}

// wrong lists what is not as it has to be after a move: the container runs where the move says,
// and there alone, with its memory, and is reached; nothing of the move is left.
func (k *killRun) wrong(d draw, r migrate.Result) (list []string) {
	for i, m := range k.machines {
		if pid := m.engine.pid(); i != k.at && pid > 0 {
			list = append(list, fmt.Sprintf("it runs on %s as well (process %d)", m.name, pid))
		}
	}
	here := k.machines[k.at]
	if k.ends(d.part) && (here.engine.pid() == 0 || strings.Contains(r.Warning, "without")) {
		here.engine.remove()
		return append(list, k.left()...)
	}
	c, err := here.count(0)
	if err == nil {
		err = here.reached(k.network)
	}
	if err == nil {
		c, err = here.count(c.Last + 3)
	}
	switch {
	case err != nil:
		list = append(list, err.Error())
	case c.Starts != 1:
		list = append(list, fmt.Sprintf("it has started %d times", c.Starts))
	}
	if strings.Contains(r.Warning, "without") {
		list = append(list, r.Warning)
	}
	return append(list, k.left()...)
}

// ends reports whether a container ends with a part, by the engine's own doing.
func (k *killRun) ends(part string) bool { return part == "engine" || part == "containerd-shim" }

// left lists what is left on the machines.
func (k *killRun) left() (left []string) {
	for range 20 { // an engine takes a moment to tidy up
		left = nil
		for _, m := range k.machines {
			for _, l := range m.engine.left() {
				left = append(left, "on "+m.name+": "+l)
			}
		}
		if len(left) == 0 {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	return left
}

// kill makes one draw, and returns how the move has ended and what is wrong after it.
func (k *killRun) kill(d draw) (end string, bad []string) {
	r, hit := k.move(d)
	if r.State == wire.MoveDone {
		k.at = 1 - k.at
	}
	ended := k.machines[k.at].engine.pid() == 0
	bad = k.wrong(d, r)
	switch end = string(r.State); {
	case !hit:
		end = "not there"
	case ended && k.ends(d.part):
		end = "ended by its engine"
	case strings.Contains(r.Warning, "without"):
		end = "memory lost with its engine"
	}
	if len(bad) > 0 {
		bad = append(bad, r.Err, r.Warning, steps(r))
	}
	if c, err := k.machines[k.at].count(0); len(bad) > 0 || err != nil || c.Starts != 1 {
		k.again()
	}
	return end, bad
}

// again begins anew, with another container.
func (k *killRun) again() {
	for _, m := range k.machines {
		m.engine.remove()
		m.engine.clear()
	}
	k.machines[k.at].engine.start(k.network)
	_, err := k.machines[k.at].count(2)
	k.machines[k.at].must(err)
}

// draw draws a part, and a moment at which it is there.
func (k *killRun) draw(number int, random *rand.Rand) draw {
	e := k.machines[0].engine
	parts := append([]string{"agent", "helper", "unit"}, e.parts()...)
	d := draw{number: number, engine: e.kind(), network: k.network, part: parts[random.IntN(len(parts))]}
	var steps [][2]string // with the side
	for step := range k.usual {
		side := "target"
		if slices.Contains([]string{"freeze", "pre-copy", "forget"}, step) {
			side = "source"
		}
		// These are there while they dump or restore.
		if (d.part == "criu" || d.part == "runc") && step != "freeze" && step != "pre-copy" && step != "restore" {
			continue
		}
		steps = append(steps, [2]string{step, side})
	}
	slices.SortFunc(steps, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	chosen := steps[random.IntN(len(steps))]
	if random.IntN(2) > 0 { // half of all kills while it stands still
		chosen = [][2]string{{"freeze", "source"}, {"restore", "target"}}[random.IntN(2)]
	}
	d.step, d.target = chosen[0], chosen[1] == "target"
	d.after = time.Duration(random.Float64() * float64(k.usual[d.step]))
	return d
}

// killGroup is an engine with a network of its.
type killGroup struct {
	engine  wire.EngineName
	network string
}

var killGroups = []killGroup{
	{wire.EngineDocker, "bridge"}, {wire.EngineDocker, "macvlan"}, {wire.EngineDocker, "host"}, {wire.EngineDocker, "none"},
	{wire.EnginePodman, "bridge"}, {wire.EnginePodman, "macvlan"}, {wire.EnginePodman, "host"}, {wire.EnginePodman, "none"},
}

// TestDrawnKills: a drawn part of a move (the agent, its helper, that with all below it, CRIU,
// the runtime, the engine, what the engine has beside each container) is killed at a drawn
// moment, with each engine and in each kind of network. The container runs on one machine
// afterwards, with its memory, and is reached; no rule, freeze, process, cable, file or state of a
// runtime is left on either.
func TestDrawnKills(t *testing.T) {
	count, groups := *killCount, killGroups
	if !*long {
		count, groups = 8, []killGroup{{wire.EngineDocker, "bridge"}, {wire.EnginePodman, "none"}}
	}
	each := (count + len(groups) - 1) / len(groups)
	table := &killTable{}
	began, next := time.Now(), *killFirst
	over := func() bool { return *killBudget > 0 && time.Since(began) > *killBudget }
	for _, engine := range []wire.EngineName{wire.EngineDocker, wire.EnginePodman} {
		t.Run(string(engine), func(t *testing.T) {
			var machines []*machine
			for i, g := range groups {
				if g.engine != engine || next >= (i+1)*each || over() {
					continue
				}
				if machines == nil {
					machines = killMachines[engine](t)
				}
				k := newKillRun(t, machines, g.network)
				for ; next < min((i+1)*each, count) && !over(); next++ {
					d, from := k.draw(next, rand.New(rand.NewPCG(*seed, uint64(next)))), time.Now()
					end, bad := k.kill(d)
					t.Logf("%s: %s (%v)", d, end, time.Since(from).Round(time.Second/10))
					table.add(d, end, len(bad) > 0)
					if len(bad) > 0 {
						t.Errorf("%s: %s", d, strings.Join(bad, "\n   "))
					}
				}
				for _, m := range machines {
					m.engine.remove()
				}
			}
		})
	}
	t.Logf("%d kills in %v (seed %d):\n%s", table.kills, time.Since(began).Round(time.Second), *seed, table)
	if next < count {
		t.Logf("the time is over: go on with -first-kill %d", next)
	}
}

var killMachines = map[wire.EngineName]func(*testing.T) []*machine{wire.EngineDocker: newDockerMachines, wire.EnginePodman: newPodmanMachines}
