// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/base/audit"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/core/plan"
	"weir/internal/core/refusal"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/offload"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/fake"
	"weir/internal/host/discover"
	"weir/internal/host/sdn/switchport"
	"weir/internal/test/logtest"
)

func inBubble(t *testing.T, config string, test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, config)
		test(t, h)
		h.stop()
		if t.Failed() {
			t.Log(h.log.String())
		}
	})
}

// script is a source that reports what the test says.
type script struct {
	name string
	poke chan struct{}

	mu      sync.Mutex
	list    map[string]discover.Workload
	mute    bool // the engine does not answer
	refuses bool // it ends the connection

	ifindex func(device string) int // of other sources; 0 = none has it, nil = there are none
}

func newScript(name string) *script {
	return &script{name: name, poke: make(chan struct{}, 1), list: map[string]discover.Workload{}}
}

func (s *script) Name() string { return s.name }

func (s *script) Run(ctx context.Context, report func([]discover.Workload)) error {
	for {
		s.mu.Lock()
		list, mute, refuses := slices.Collect(maps.Values(s.list)), s.mute, s.refuses
		s.mu.Unlock()
		if refuses {
			return errors.New("connection refused")
		}
		if !mute {
			report(list)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.poke:
		}
	}
}

// change edits what the source sees.
func (s *script) change(edit func(map[string]discover.Workload)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	edit(s.list)
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

// deaf makes the source silent, or has it say what it sees.
func (s *script) deaf(silent bool) {
	s.change(func(map[string]discover.Workload) { s.mute = silent })
}

// Attach implements Attacher, for a source of namespaces and devices.
func (s *script) Attach(a config.Attachment, wait bool) error {
	if strings.HasPrefix(a.Netns+a.Device, "missing") && !wait {
		return fmt.Errorf("network namespace %q does not exist", a.Netns)
	}
	s.change(func(list map[string]discover.Workload) {
		w := decide.WorkloadOf(a)
		if w.Devices = []discover.Device{{Name: "veth-" + a.Name, Ifindex: ifindexOf("veth-" + a.Name)}}; a.Pod != "" && a.Cgroup != "" { // of the host's network
			w.Devices, w.Cgroups = nil, []string{a.Cgroup}
		}
		list[w.Key] = w
	})
	return nil
}

// Look implements Attacher; the namespace "shared-NAME" has the device of container NAME.
func (s *script) Look(a config.Attachment) ([]discover.Device, []string) {
	if a.Cgroup != "" {
		return nil, []string{a.Cgroup}
	}
	name := cmp.Or(a.Device, "veth-"+a.Name)
	if container, ok := strings.CutPrefix(a.Netns, "shared-"); ok {
		name = "veth" + container
	}
	return []discover.Device{{Name: name, Ifindex: s.index(name)}}, nil
}

// index is the device's, or one that none has.
func (s *script) index(name string) int {
	if s.ifindex != nil {
		if index := s.ifindex(name); index != 0 {
			return index
		}
	}
	return ifindexOf(name)
}

func (s *script) Detach(a config.Attachment) error {
	s.change(func(list map[string]discover.Workload) { delete(list, decide.WorkloadOf(a).Key) })
	return nil
}

// host is a machine with an agent on it, in a bubble of synthetic time.
type host struct {
	t       *testing.T
	dir     string
	kernel  *fake.Kernel
	docker  *script
	netns   *script
	config  config.Config
	ports   func(context.Context, func(switchport.Report)) error
	load    func() (config.Config, error)
	log     *logtest.Buffer
	devices int // made so far
	goodput func() (Meter, error)
	// lockLimit is agent.Options.LockLimit.
	lockLimit func(l config.Link, backend string) string
	offload   offload.Limits
	audit     *audit.Log // nil = none
	down      func(device string) string
	// unwritable is what agent.Options.Unwritable returns, observed what other parts report.
	unwritable []api.Storage
	why        string // for a down of a test's own
	observed   func(*event.Sight)
	index      func(device string) int // nil = what a device's index is is not known
	changed    chan struct{}
	wall       func(time.Time) time.Time             // agent.Options.Wall
	open       func() (map[plan.ClassID]bool, error) // agent.Options.OpenSockets

	*Agent
	cancel context.CancelFunc
	done   chan error
}

// parse reads a configuration; without links it gets eth0 with 100 Mbit/s.
func parse(t *testing.T, text string) config.Config {
	t.Helper()
	if !strings.Contains(text, "links:") {
		text = "links: [{device: eth0, egress: 100mbit}]\n" + text
	}
	c, err := config.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newHost(t *testing.T, text string) *host {
	t.Helper()
	docker, netns := newScript("docker"), newScript("netns")
	netns.ifindex = func(device string) int {
		docker.mu.Lock()
		defer docker.mu.Unlock()
		for _, w := range docker.list {
			for _, d := range w.Devices {
				if d.Name == device {
					return d.Ifindex
				}
			}
		}
		return 0
	}
	return &host{
		t: t, dir: t.TempDir(), kernel: fake.NewKernel("eth0", "eth1", "eth0 ingress"),
		docker: docker, netns: netns,
		config: parse(t, text), log: &logtest.Buffer{},
	}
}

// start runs an agent until stop or the end of the test.
func (h *host) start() {
	h.t.Helper()
	var err error
	h.Agent, err = New(Options{
		Config: h.config, StateDir: h.dir, Load: h.load, Wall: h.wall,
		Devices: Devices{
			Open:  func(l config.Link) (dataplane.Backend, error) { return h.kernel.Open(l.Name()) },
			Names: h.kernel.Devices,
			Index: h.index, Changed: h.changed,
		},
		Sources: []discover.Source{h.docker, h.netns},
		Attach:  h.netns,
		Ports:   h.ports,
		Goodput: h.goodput,

		LockLimit:  h.lockLimit,
		Down:       h.down,
		Unwritable: func() []api.Storage { return h.unwritable },

		OpenSockets: h.open,

		Offload: h.offload,
		Audit:   h.audit,
		Log:     slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Observe(func(s *event.Sight) {
		if h.observed != nil {
			h.observed(s)
		}
	})
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(h.t.Context())
	h.done = make(chan error, 1)
	go func() { h.done <- h.Run(ctx) }()
	synctest.Wait()
}

// reload has the running agent read another configuration.
func (h *host) reload(text string) {
	h.t.Helper()
	next := parse(h.t, text)
	h.opts.Load = func() (config.Config, error) { return next, nil }
	if err := h.Reload(h.t.Context(), "test"); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (h *host) stop() {
	h.t.Helper()
	h.cancel()
	if err := <-h.done; err != nil {
		h.t.Errorf("agent ended: %v", err)
	}
}

// run makes a container run, with labels "weir.min=20mbit".
func (h *host) run(name string, labels ...string) {
	h.docker.change(func(list map[string]discover.Workload) {
		w := container(name, labels...)
		if was, runs := list[w.Key]; runs && len(was.Devices) > 0 {
			w.ID, w.Devices = was.ID, was.Devices
		} else {
			h.devices++ // a new one has its own, also if another was renamed and keeps this name's
			w.Devices[0].Ifindex = h.devices
			for _, other := range list {
				if other.ID == w.ID { // it was renamed, and is another container
					w.ID = fmt.Sprintf("%x%016x", name, h.devices)
				}
			}
		}
		list[w.Key] = w
	})
	synctest.Wait()
}

// container is a workload whose id and device follow from its name.
func container(name string, labels ...string) discover.Workload {
	w := discover.Workload{
		Key: "docker:" + name, ID: fmt.Sprintf("%x", name) + "0000000000000000", Name: name, Kind: "docker",
		Labels:  map[string]string{"com.example": "x"},
		Devices: []discover.Device{{Name: "veth" + name, Ifindex: ifindexOf("veth" + name)}},
	}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		w.Labels[key] = value
	}
	return w
}

// ifindexOf gives each name its own index, the same at each call.
func ifindexOf(name string) int {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return int(hash.Sum32() >> 1)
}

func (h *host) kill(name string) {
	h.docker.change(func(list map[string]discover.Workload) { delete(list, "docker:"+name) })
	synctest.Wait()
}

// state is the kernel's, as text.
func (h *host) state(device string) string { return render(h.kernel.State(device)) }

// render writes a state down, one line for each class: "1 web weight 3 min
// 20 Mbit/s: vethweb".
func render(s plan.State) string {
	var b strings.Builder
	for _, c := range s.Classes {
		fmt.Fprintf(&b, "%d %s weight %d", c.ID, c.Name, c.Weight)
		if c.Min > 0 {
			fmt.Fprintf(&b, " min %v", c.Min)
		}
		if c.Max > 0 {
			fmt.Fprintf(&b, " max %v", c.Max)
		}
		if c.Limit != (plan.Limit{}) {
			fmt.Fprintf(&b, " limit %d/%d", c.Limit.Packets, c.Limit.Bytes)
		}
		sep := ": "
		for _, p := range s.Ports {
			if p.Class == c.ID {
				b.WriteString(sep + p.String())
				sep = " "
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// expect compares the kernel's state with text, leading tabs left out.
func (h *host) expect(what, device, want string) {
	h.t.Helper()
	synctest.Wait()
	if got := h.state(device); got != flush(want) {
		h.t.Errorf("%s: %s has\n%swant\n%s", what, device, got, flush(want))
	}
}

// flush takes the indentation of a raw string away.
func flush(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line+"\n")
		}
	}
	return strings.Join(lines, "")
}

// change is a request to set fields: "weight=3 min=20mbit reset".
func change(text string) api.PolicyChange {
	var pairs []string
	reset := false
	for _, word := range strings.Fields(text) {
		if field, value, ok := strings.Cut(word, "="); ok {
			pairs = append(pairs, field, value)
			continue
		}
		if word != "reset" {
			panic(text)
		}
		reset = true
	}
	c := apitest.Change(pairs...)
	c.Reset = reset
	return c
}

// set asks for a change that must succeed.
func (h *host) set(name, fields string) api.ChangeResult {
	h.t.Helper()
	result, err := h.Set(h.t.Context(), name, change(fields), false)
	if err != nil {
		h.t.Fatalf("set %s %s: %v", name, fields, err)
	}
	return result
}

// workload asks for one that must be there.
func (h *host) workload(name string) api.Workload {
	h.t.Helper()
	w, err := h.Workload(h.t.Context(), name)
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// refused checks that err is a *refusal.Error of the kind with all the words.
func refused(t *testing.T, err error, kind refusal.Kind, words ...string) {
	t.Helper()
	var e *refusal.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, want kind %s", err, kind)
	}
	for _, word := range words {
		if said := e.Value + " " + e.Error(); !strings.Contains(said, word) { // as the command line prints it
			t.Errorf("%q does not say %q", said, word)
		}
	}
}

// seconds lets time pass.
func seconds(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}
