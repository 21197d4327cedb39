// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

var (
	long = flag.Bool("long", false, "200 migrations with faults instead of a few")
	seed = flag.Uint64("seed", 1, "which faults at which steps")
	only = flag.String("fault", "", "this fault alone")
)

// fault is something that goes wrong at a call of a migration. It gets the two nodes
// by their parts in it.
type fault struct {
	name string
	// at happens instead of the call (which it may make): its answer is the answer.
	at func(f *faults, call func() error) error
	// loses: the container's memory may be lost, since its engine was; losesThere: if it
	// was on the target by then.
	loses, losesThere bool
}

var errFault = errors.New("injected fault")

// crash is the panic that stands for a driver's death.
type crash struct{}

var kinds = []fault{
	{name: "the call does not arrive", at: func(*faults, func() error) error { return errFault }},
	{name: "the answer does not arrive", at: func(_ *faults, call func() error) error {
		return errors.Join(call(), errFault)
	}},
	{name: "the driver dies before the call", at: func(*faults, func() error) error { panic(crash{}) }},
	{name: "the driver dies after the call", at: func(_ *faults, call func() error) error {
		_ = call()
		panic(crash{})
	}},
	{name: "the network is cut for 3 s", at: func(f *faults, _ func() error) error {
		f.cutFor(3 * time.Second)
		return errFault
	}},
	{name: "the network is cut for 9 s, longer than the lease, after the call", at: func(f *faults, call func() error) error {
		err := call()
		f.cutFor(9 * time.Second)
		return errors.Join(err, errFault)
	}},
	{name: "the target's agent dies", at: func(f *faults, call func() error) error {
		err := call()
		f.bed.restartAgent(f.to)
		return errors.Join(err, errFault)
	}},
	{name: "the target's engine crashes", losesThere: true, at: func(f *faults, call func() error) error {
		f.bed.Node(f.to).KillDaemon()
		err := call()
		f.bed.startEngine(f.to)
		return err
	}},
	{name: "the source's engine crashes", loses: true, at: func(f *faults, call func() error) error {
		f.bed.Node(f.from).KillDaemon()
		err := call()
		f.bed.startEngine(f.from)
		return err
	}},
	{name: "CRIU refuses on the source", at: func(f *faults, call func() error) error {
		f.bed.must(f.bed.Node(f.from).BreakCRIU())
		err := call()
		f.bed.must(f.bed.Node(f.from).MendCRIU())
		return err
	}},
	{name: "CRIU refuses on the target", at: func(f *faults, call func() error) error {
		f.bed.must(f.bed.Node(f.to).BreakCRIU())
		err := call()
		f.bed.must(f.bed.Node(f.to).MendCRIU())
		return err
	}},
	{name: "the target's disk is full", at: func(f *faults, call func() error) error {
		f.bed.must(f.bed.Node(f.to).FillDisk())
		err := call()
		f.bed.must(f.bed.Node(f.to).FreeDisk())
		return err
	}},
	{name: "the source's disk is full", at: func(f *faults, call func() error) error {
		f.bed.must(f.bed.Node(f.from).FillDisk())
		err := call()
		f.bed.must(f.bed.Node(f.from).FreeDisk())
		return err
	}},
	{name: "the registry is down", at: func(f *faults, call func() error) error {
		f.bed.must(f.bed.StopRegistry())
		err := call()
		f.bed.must(f.bed.StartRegistry())
		return err
	}},
	{name: "an operator cancels it before the call", at: func(f *faults, call func() error) error {
		_ = f.journal.Cancel("by the test") // or it is too late
		return call()
	}},
	{name: "an operator cancels it during the call", at: func(f *faults, call func() error) error {
		go func() {
			time.Sleep(50 * time.Millisecond)
			_ = f.journal.Cancel("by the test")
		}()
		return call()
	}},
	{name: "the stream breaks in the middle", at: func(f *faults, call func() error) error {
		f.breakNext()
		return call()
	}},
}

// faults makes a fault happen at the nth call of a migration.
type faults struct {
	bed      *faultBed
	from, to string
	fault    fault
	at       int
	journal  *migrate.Journal

	mu     sync.Mutex
	calls  int
	struck string    // at which call
	cut    time.Time // until when the target cannot be reached
	breaks bool      // the next stream breaks
}

func (f *faults) breakNext() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breaks = true
}

func (f *faults) cutFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = time.Now().Add(d)
}

// call is made of every call to either node.
func (f *faults) call(node, what string, do func() error) error {
	f.mu.Lock()
	f.calls++
	strikes := f.calls == f.at
	cut := node == f.to && time.Now().Before(f.cut)
	if strikes {
		f.struck = node + " " + what
	}
	f.mu.Unlock()
	switch {
	case strikes:
		return f.fault.at(f, do)
	case cut:
		time.Sleep(100 * time.Millisecond)
		return errFault
	}
	return do()
}

// faulty is a node behind a network that has faults.
type faulty struct {
	*faults
	node string
}

func (n faulty) now() *migrate.Local { return n.bed.agent(n.node) }

func (n faulty) Name() string { return n.node }

func (n faulty) Facts(ctx context.Context) (migrate.Facts, error) { return n.now().Facts(ctx) }

func (n faulty) Describe(ctx context.Context, name string) (migrate.Container, error) {
	return n.now().Describe(ctx, name)
}

func (n faulty) Lacking(ctx context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	return n.now().Lacking(ctx, o)
}

func (n faulty) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	err = n.call(n.node, string(step), func() error {
		out, err = n.now().Do(ctx, step, o)
		return err
	})
	return out, err
}

func (n faulty) Send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	n.mu.Lock()
	breaks := n.breaks
	n.breaks = false
	n.mu.Unlock()
	if breaks {
		w = &breaking{w: w, left: 100_000}
	}
	return n.now().Send(ctx, p, o, w)
}

func (n faulty) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (out migrate.StepOutcome, err error) {
	err = n.call(n.node, "receive "+p.String(), func() error {
		out, err = n.now().Receive(ctx, p, o, r)
		return err
	})
	return out, err
}

type breaking struct {
	w    io.Writer
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, errFault
	}
	b.left -= len(p)
	return b.w.Write(p)
}

// faultBed is a bed whose agents can die.
type faultBed struct {
	*bed
	mu     sync.Mutex
	before map[string]string // what there was on each node at the beginning
}

func (b *faultBed) agent(node string) *migrate.Local {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[node]
}

func (b *faultBed) restartAgent(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.nodes[node].Close()
	b.nodes[node] = b.local(b.Node(node))
}

// startEngine starts a node's dockerd again, as a service manager does: until it runs.
func (b *faultBed) startEngine(node string) {
	b.t.Helper()
	var err error
	for range 5 {
		time.Sleep(time.Second) // containerd dies a moment later
		if err = b.Node(node).StartDaemon(context.Background()); err == nil {
			return
		}
		b.t.Logf("the engine of %s: %.300v", node, err)
	}
	b.t.Fatal(err)
}

// leftovers returns the objects on a node that a migration makes, as text. Those of the
// named container are left out.
func (b *faultBed) leftovers(node, name string) string {
	ctx, n := b.t.Context(), b.Node(node)
	var list []string
	images, err := n.Docker().ImageList(ctx, image.ListOptions{All: true})
	b.must(err)
	used, own := "", ""
	containers, err := n.Docker().ContainerList(ctx, container.ListOptions{All: true})
	b.must(err)
	for _, c := range containers {
		if c.Names[0] == "/"+name {
			used, own = c.ImageID, c.Image
			continue
		}
		list = append(list, "container "+c.Names[0])
	}
	for _, i := range images {
		i.RepoTags = slices.DeleteFunc(i.RepoTags, func(tag string) bool { return tag == "<none>:<none>" }) // what Docker 20.10 calls none
		for _, tag := range i.RepoTags {
			if tag != own || tag == clustertest.CounterImage { // that one was there before
				list = append(list, "image "+tag)
			}
		}
		if len(i.RepoTags) == 0 && i.ID != used {
			list = append(list, "image without a name")
		}
	}
	volumes, err := n.Docker().VolumeList(ctx, volume.ListOptions{})
	b.must(err)
	for _, v := range volumes.Volumes {
		if used == "" {
			list = append(list, "volume "+v.Name)
		}
	}
	for _, pattern := range []string{"data/containers/*/weir-*", "data/containers/*/checkpoints/weir-*", "ctrd-checkpoint*", "ballast"} {
		found, err := filepath.Glob(filepath.Join(n.Dir(), pattern))
		b.must(err)
		for _, f := range found {
			list = append(list, strings.TrimPrefix(f, n.Dir()))
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "\n")
}

// TestFaults: whatever fails at whichever step, the container runs on exactly one
// node, with its data, and nothing stays behind.
func TestFaults(t *testing.T) {
	count := 8
	if *long {
		count = 200
	}
	list := kinds
	if *only != "" {
		list = slices.DeleteFunc(slices.Clone(kinds), func(f fault) bool { return !strings.Contains(f.name, *only) })
	}
	b := &faultBed{bed: newBed(t, clustertest.Options{Nodes: []string{"a", "b"}, DiskMiB: map[string]int{"a": 512, "b": 512}}), before: map[string]string{}}
	const name = "count"
	for _, n := range []string{"a", "b"} {
		b.before[n] = b.leftovers(n, name)
	}
	b.start("a", name, func(c *container.Config, h *container.HostConfig) {
		h.RestartPolicy.Name = container.RestartPolicyAlways
		h.Binds = []string{"things:/things"}
	}, "mib=4")
	random := rand.New(rand.NewPCG(*seed, 0))
	approaches := []migrate.Approach{migrate.ApproachLayer, migrate.ApproachCommit, migrate.ApproachExport}
	outcomes := map[wire.MoveState]int{}
	at, to := "a", "b"
	for i := range count {
		f := &faults{bed: b, from: at, to: to, fault: list[random.IntN(len(list))], at: 1 + random.IntN(9)}
		approach := approaches[random.IntN(len(approaches))]
		title := fmt.Sprintf("%d %s by %s, call %d: %s", i, at, approach, f.at, f.fault.name)
		r := b.migrateWithFault(f, name, approach)
		outcomes[r.State]++
		where := at
		if r.State == wire.MoveDone {
			where = to
		}
		b.verify(title+" ("+f.struck+")", f, name, where, r)
		if where == to {
			at, to = to, at
		}
		if t.Failed() {
			t.Fatal("the rest would only repeat it")
		}
	}
	t.Logf("%d migrations with a fault in each: %v", count, outcomes)
}

// migrateWithFault runs a migration, and takes it up again if its driver died.
func (b *faultBed) migrateWithFault(f *faults, name string, approach migrate.Approach) migrate.Result {
	b.t.Helper()
	source, target := faulty{f, f.from}, faulty{f, f.to}
	p, err := migrate.Check(b.t.Context(), source, target, migrate.Request{
		Move: fmt.Sprintf("t%d", b.moves.Add(1)), Container: name, Approach: approach, Registry: b.Registry,
	})
	b.must(err)
	b.must(p.Err())
	p.Order.Lease = 6 * time.Second
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	f.journal = j
	r, err := b.untilCrash(func() (migrate.Result, error) {
		return migrate.Run(context.Background(), source, target, j, nil)
	})
	_ = j.Close()
	for try := 0; try < 5; try++ {
		open, listErr := b.journals.Unfinished()
		b.must(listErr)
		if len(open) == 0 {
			break
		}
		r, err = b.untilCrash(func() (migrate.Result, error) {
			return migrate.Resume(context.Background(), source, target, open[0], nil)
		})
		_ = open[0].Close()
	}
	if err != nil {
		b.t.Errorf("the migration has no end: %v", err)
	}
	return r
}

// untilCrash runs a driver's life.
func (b *faultBed) untilCrash(life func() (migrate.Result, error)) (r migrate.Result, err error) {
	defer func() {
		if died := recover(); died != nil {
			if _, ok := died.(crash); !ok {
				panic(died)
			}
			err = errors.New("the driver died")
		}
	}()
	return life()
}

// verify reports the faults in the state of the cluster.
func (b *faultBed) verify(title string, f *faults, name, where string, r migrate.Result) {
	b.t.Helper()
	b.t.Logf("%s: %s after %v down: %s %s", title, r.State, r.Downtime.Round(time.Millisecond), r.Err, r.Warning)
	for node := range maps.Keys(b.before) {
		names, err := b.Node(node).Running(b.t.Context())
		b.must(err)
		switch {
		case node == where && !slices.Equal(names, []string{name}):
			b.t.Errorf("%s: %s runs %v, want %s%s", title, node, names, name, steps(r))
		case node != where && len(names) > 0:
			b.t.Errorf("%s: %s runs %v as well%s", title, node, names, steps(r))
		}
	}
	if b.t.Failed() {
		return
	}
	now, err := b.Node(where).Count(b.t.Context(), name)
	if err == nil {
		now = b.waitCount(where, name, now.Last)
	}
	lost := f.fault.loses || f.fault.losesThere && where == f.to || strings.Contains(r.Warning, "without its memory")
	if err != nil && !lost {
		b.t.Errorf("%s: %v%s", title, err, steps(r))
	}
	if lost && err != nil { // its file has two lives by now: begin a new one
		was, err := b.Node(where).Docker().ContainerInspect(b.t.Context(), name)
		b.must(err)
		b.must(b.Node(where).Remove(b.t.Context(), name))
		if was.Config.Image != clustertest.CounterImage {
			_, err = b.Node(where).Docker().ImageRemove(b.t.Context(), was.Config.Image, image.RemoveOptions{})
			b.must(err)
		}
		b.must(b.Node(where).Docker().VolumeRemove(b.t.Context(), "things", true))
		b.start(where, name, func(c *container.Config, h *container.HostConfig) {
			h.RestartPolicy.Name = container.RestartPolicyAlways
			h.Binds = []string{"things:/things"}
		}, "mib=4")
	}
	described, err := b.Node(where).Docker().ContainerInspect(b.t.Context(), name)
	b.must(err)
	if described.HostConfig.RestartPolicy.Name != container.RestartPolicyAlways {
		b.t.Errorf("%s: its restart policy is %q", title, described.HostConfig.RestartPolicy.Name)
	}
	for node, want := range b.before {
		if got := b.leftovers(node, name); got != want {
			b.t.Errorf("%s: left on %s:\n%s\nwanted:\n%s%s", title, node, got, want, steps(r))
		}
	}
}

func TestMain(m *testing.M) {
	if socket := os.Getenv(helperSocket); socket != "" {
		fmt.Fprintln(os.Stderr, serveHelper(socket)) // which ends with an error alone
		os.Exit(1)
	}
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the registry's: every layer that it does not have yet
	os.Exit(m.Run())
}
