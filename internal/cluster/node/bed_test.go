// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/wire"
)

// logBuffer is a log to be looked at.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) has(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

// wait waits for a line with all the words.
func (l *logBuffer) wait(t *testing.T, words ...string) {
	t.Helper()
	if !eventually(func() bool { return l.has(words...) }) {
		t.Errorf("no line with %q in the log:\n%s", words, l)
	}
}

func eventually(f func() bool) bool {
	for range 600 {
		if f() {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// world is what the fake engines of a test share: who has which container, and
// whether it runs.
type world struct {
	mu   sync.Mutex
	has  map[string]map[string]bool // node, container, running
	fail map[migrate.Step]error     // a step that fails
	slow map[migrate.Step]chan struct{}
	hide map[string]chan struct{}     // containers that are not described before this is closed
	lack map[string][]migrate.Finding // what nodes lack for a container
	copy map[string]string            // container, by move
	kind string                       // of the engines, "" = docker
}

func newWorld() *world {
	return &world{copy: map[string]string{}, has: map[string]map[string]bool{}, fail: map[migrate.Step]error{}, slow: map[migrate.Step]chan struct{}{}}
}

func (w *world) put(node, container string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has[node] == nil {
		w.has[node] = map[string]bool{}
	}
	w.has[node][container] = true
}

// where are the nodes on which a container runs.
func (w *world) where(container string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for node, has := range w.has {
		if has[container] {
			list = append(list, node)
		}
	}
	slices.Sort(list)
	return list
}

// engine is a container engine without containers: it does what its name says in the
// world's books.
type engine struct {
	*world
	node string
}

func (e engine) Kind() string { return cmp.Or(e.kind, "docker") }
func (engine) Close() error   { return nil }

func (e engine) Facts(context.Context) (migrate.Facts, error) {
	return migrate.Facts{Node: e.node, Engine: "docker", EngineVersion: "26.1.5", Arch: "x86_64", Kernel: "6.18", Runtime: "runc",
		StorageDriver: "overlay2", Cgroups: "2", CRIU: "4.2.1", Checkpoints: true, FreeBytes: 1 << 40}, nil
}

func (e engine) Describe(ctx context.Context, name string) (migrate.Container, error) {
	e.mu.Lock()
	hidden := e.hide[name]
	e.mu.Unlock()
	if hidden != nil {
		select {
		case <-hidden:
		case <-ctx.Done():
			return migrate.Container{}, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	running, ok := e.has[e.node][name]
	if !ok {
		return migrate.Container{}, &migrate.Error{Code: migrate.CodeNoContainer, Msg: "no container " + name}
	}
	return migrate.Container{ID: "id-" + name, Name: name, Engine: "docker", Running: running, Image: "img", ImageID: "sha256:1"}, nil
}

func (e engine) Lacking(_ context.Context, o migrate.Order) ([]migrate.Finding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lack[o.Container.Name], nil
}

func (e engine) Do(ctx context.Context, step migrate.Step, o migrate.Order) (migrate.Outcome, error) {
	e.mu.Lock()
	gate, failure := e.slow[step], e.fail[step]
	e.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return migrate.Outcome{}, ctx.Err()
		}
	}
	if failure != nil {
		return migrate.Outcome{}, failure
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.has[e.node] == nil {
		e.has[e.node] = map[string]bool{}
	}
	name := o.Container.Name
	switch step {
	case migrate.StepCommit:
		return migrate.Outcome{ImageID: "sha256:" + strings.Repeat("2", 64)}, nil
	case migrate.StepPush:
		return migrate.Outcome{Digest: "sha256:" + strings.Repeat("3", 64)}, nil
	case migrate.StepFreeze:
		e.has[e.node][name] = false
	case migrate.StepCreate:
		e.copy[o.Move] = name
	case migrate.StepRestore, migrate.StepThaw:
		e.has[e.node][name] = true
	case migrate.StepForget:
		delete(e.has[e.node], name)
	case migrate.StepDiscard:
		delete(e.has[e.node], name)
		delete(e.copy, o.Move)
	}
	return migrate.Outcome{}, nil
}

func (e engine) Send(_ context.Context, p migrate.Part, _ migrate.Order, w io.Writer) (migrate.Outcome, error) {
	text := strings.Repeat("x", 1<<20)
	n, err := io.WriteString(w, p.String()+text)
	return migrate.Outcome{Bytes: int64(n)}, err
}

func (e engine) Receive(_ context.Context, p migrate.Part, _ migrate.Order, r io.Reader) (migrate.Outcome, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return migrate.Outcome{}, err
	}
	if !strings.HasPrefix(string(text), p.String()) || len(text) != len(p.String())+1<<20 {
		return migrate.Outcome{}, fmt.Errorf("a part of %d bytes", len(text))
	}
	return migrate.Outcome{Bytes: int64(len(text))}, nil
}

func (e engine) Copy(_ context.Context, move string) (string, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, ok := e.copy[move]
	if !ok {
		return "", false, nil
	}
	return "id-" + name, e.has[e.node][name], nil
}

// Hold and Release: a container of the world's does not care.
func (engine) Hold(context.Context, migrate.Order) error    { return nil }
func (engine) Release(context.Context, migrate.Order) error { return nil }

// fakeAgent has policies and a link that refuses mins beyond its capacity.
type fakeAgent struct {
	api.Agent
	world    *world
	node     string
	capacity uint64
	mu       sync.Mutex
	min      map[string]uint64 // of containers here
	set      map[string]api.PolicyChange
	groups   []string
	kinds    map[string]string // of workloads that are no containers
}

func newAgent(w *world, node string, capacity uint64) *fakeAgent {
	return &fakeAgent{world: w, node: node, capacity: capacity, min: map[string]uint64{}, set: map[string]api.PolicyChange{}}
}

// reserve gives container `name` a min of bps before anybody asks.
func (a *fakeAgent) reserve(name string, bps uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.min[name] = bps
}

func (a *fakeAgent) Status(context.Context) (api.Status, error) {
	return api.Status{Links: []api.LinkStatus{{Device: "eth0", CapacityBps: a.capacity}}}, nil
}

func (a *fakeAgent) Workload(_ context.Context, name string) (api.Workload, error) {
	if !slices.Contains(a.world.where(name), a.node) {
		return api.Workload{}, &api.Error{Status: 404, Field: "name", Value: name, Msg: "unknown"}
	}
	w := api.Workload{Name: name, ID: "id-" + name, Kind: "docker", Origin: map[string]string{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	if kind := a.kinds[name]; kind != "" {
		w.Kind = kind
	}
	c := a.set[name]
	w.Policy = policyOf(c, "", w.Origin)
	if c.Ingress != nil {
		w.Policy.Ingress = new(policyOf(*c.Ingress, "ingress.", w.Origin))
	}
	return w, nil
}

// Workloads are the host, and the containers that run here.
func (a *fakeAgent) Workloads(ctx context.Context) ([]api.Workload, error) {
	list := []api.Workload{{Name: "host", Kind: "host"}}
	a.world.mu.Lock()
	var names []string
	for name, running := range a.world.has[a.node] {
		if running {
			names = append(names, name)
		}
	}
	a.world.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		if w, err := a.Workload(ctx, name); err == nil {
			list = append(list, w)
		}
	}
	return list, nil
}

// policyOf is a policy of which only what was set is known.
func policyOf(c api.PolicyChange, prefix string, origin map[string]string) (p api.Policy) {
	put(&p.Weight, c.Weight, origin, prefix+"weight")
	put(&p.Min, c.Min, origin, prefix+"min")
	put(&p.Max, c.Max, origin, prefix+"max")
	put(&p.Reserve, c.Reserve, origin, prefix+"reserve")
	put(&p.Discipline, c.Discipline, origin, prefix+"discipline")
	put(&p.Queues, c.Queues, origin, prefix+"queues")
	put(&p.Group, c.Group, origin, prefix+"group")
	return p
}

func put[T any](to, from *T, origin map[string]string, field string) {
	if from != nil {
		*to, origin[field] = *from, "set"
	}
}

func (a *fakeAgent) Set(ctx context.Context, name string, c api.PolicyChange, _ bool) (api.ChangeResult, error) {
	if _, err := a.Workload(ctx, name); err != nil {
		return api.ChangeResult{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Min != nil {
		var asked, reserved uint64
		fmt.Sscanf(*c.Min, "%dmbit", &asked)
		asked *= 1e6
		for other, min := range a.min {
			if other != name {
				reserved += min
			}
		}
		if asked+reserved > a.capacity {
			return api.ChangeResult{}, &api.Error{Status: 409, Field: "min", Value: *c.Min, Msg: "link eth0 has no room for it", Remedy: "ask for less"}
		}
		a.min[name] = asked
	}
	if c.Group != nil && !slices.Contains(a.groups, *c.Group) {
		return api.ChangeResult{}, &api.Error{Status: 422, Field: "group", Value: *c.Group, Msg: "no group has that name"}
	}
	kept := a.set[name]
	if c.Reset {
		kept, c.Reset = api.PolicyChange{}, false
	}
	text, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(text, &kept) // what c does not say stays
	}
	a.set[name] = kept
	return api.ChangeResult{}, err
}

// profile is what the sampler would make of the world.
func (a *fakeAgent) profile(context.Context) (wire.Profile, error) {
	p := wire.Profile{V: 1, Node: a.node, Time: time.Now(), IntervalSeconds: 1,
		Capacity: wire.Capacity{CPUCores: 4, MemoryBytes: 8e9, NetworkTransmitBps: a.capacity, GuaranteedBps: a.capacity}}
	a.world.mu.Lock()
	defer a.world.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, running := range a.world.has[a.node] {
		if running {
			p.Containers = append(p.Containers, wire.ContainerProfile{ID: "id-" + name, Name: name, Engine: "docker",
				Policy: wire.Policy{MinBps: a.min[name]}, Usage: wire.Usage{CPUCores: 1, MemoryBytes: 100e6}})
		}
	}
	return p, nil
}

// cluster is a manager with nodes, in this process, over real connections.
type cluster struct {
	t       *testing.T
	dir     string
	opts    manager.Options
	log     *logBuffer
	manager *manager.Manager
	stop    func()
	world   *world
	token   string
	helper  func(o Options, e migrate.Engine) migrate.Engine // between a node and its engine; nil = none
}

// onBus is the bus of all clusters that are made; TestOnKafka changes it.
var onBus = bus.Address{Kind: bus.NATS}

// overKafka is how a member connects to the brokers; TestOnSecuredKafka changes it.
var overKafka = func(member string) kafka.Security { return kafka.Security{} }

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), log: &logBuffer{}, world: newWorld()}
	token, err := manager.InitFor(filepath.Join(c.dir, "manager"), manager.AnyNumber, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.token = token.String()
	c.opts = manager.Options{Dir: filepath.Join(c.dir, "manager"), Listen: "127.0.0.1:0", BusListen: "127.0.0.1:0", Bus: onBus,
		Kafka: overKafka(wire.Manager), Automatic: manager.DefaultAutomatic(), Log: slog.New(slog.NewTextHandler(c.log, nil))}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

// start runs the manager; again at the same address after stop.
func (c *cluster) start() {
	c.t.Helper()
	m, err := manager.New(c.opts)
	if err == nil {
		err = m.Listen(context.Background())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.manager, c.opts.Listen, c.opts.BusListen = m, m.Addr(), m.BusAddr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	c.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				c.t.Errorf("manager: %v", err)
			}
		})
	}
}

// testNode is a node that runs.
type testNode struct {
	*Node
	agent *fakeAgent
	log   *logBuffer
	stop  func()
	opts  Options
}

func (c *cluster) options(name string) Options {
	return Options{Manager: c.opts.Listen, Token: c.token, Name: name, Listen: "127.0.0.1:0", Dir: filepath.Join(c.dir, name),
		Heartbeat: 100 * time.Millisecond, Interval: 100 * time.Millisecond, Version: "test",
		Kafka: overKafka(name)}
}

// node starts a node whose link can guarantee so many bit/s.
func (c *cluster) node(name string, capacity uint64) *testNode {
	c.t.Helper()
	return c.run(c.options(name), newAgent(c.world, name, capacity))
}

func (c *cluster) run(o Options, agent *fakeAgent) *testNode {
	c.t.Helper()
	n := &testNode{agent: agent, log: &logBuffer{}}
	o.Log = slog.New(slog.NewTextHandler(n.log, nil))
	o.Agent, o.Profile = agent, agent.profile
	id, err := Enroll(c.t.Context(), o)
	if err != nil {
		c.t.Fatalf("%s: %v", o.Name, err)
	}
	var own migrate.Engine = engine{c.world, o.Name}
	if c.helper != nil {
		own = c.helper(o, own)
	}
	local, err := migrate.NewLocal(o.Name, own, filepath.Join(o.Dir, "migrate"), o.Log)
	if err != nil {
		c.t.Fatal(err)
	}
	o.Engine = local
	n.opts = o
	if n.Node, err = New(o, id); err == nil {
		err = n.Listen()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	n.stop = func() { once.Do(func() { cancel(); <-done; local.Close() }) }
	c.t.Cleanup(n.stop)
	return n
}

// up waits until the manager knows of so many nodes what they have.
func (c *cluster) up(many int) {
	c.t.Helper()
	if !eventually(func() bool {
		list, err := c.manager.Nodes(c.t.Context())
		known := 0
		for _, n := range list {
			if n.State == "up" && n.CPUCapacity > 0 && n.CRIU != "" {
				known++
			}
		}
		return err == nil && known == many
	}) {
		list, _ := c.manager.Nodes(c.t.Context())
		c.t.Fatalf("not all of %d nodes are up: %+v\n%s", many, list, c.log)
	}
}

// ended waits for the end of a move.
func (c *cluster) ended(id string) api.Move {
	c.t.Helper()
	var mv api.Move
	if !eventually(func() bool {
		var err error
		mv, err = c.manager.Move(c.t.Context(), id)
		return err == nil && !mv.Ended.IsZero()
	}) {
		c.t.Fatalf("move %s does not end: %+v\n%s", id, mv, c.log)
	}
	return mv
}

// only checks that a container runs on one node, this one.
func (c *cluster) only(container, node string) {
	c.t.Helper()
	if at := c.world.where(container); !slices.Equal(at, []string{node}) {
		c.t.Errorf("%s runs on %v, want %s", container, at, node)
	}
}

// refusedAs checks the fields of an *api.Error.
func refusedAs(t *testing.T, err error, status int, words ...string) {
	t.Helper()
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != status {
		t.Errorf("got %v, want an error with status %d", err, status)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+refused.Value, w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
