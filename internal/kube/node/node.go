// SPDX-License-Identifier: Apache-2.0

// Package node holds what is known of this node's pods, and makes the agent's workloads and
// groups those that package decide says.
//
//	n := node.New(node.Options{Agent: api.NewClient(api.DefaultSocket), Events: recorder, Log: log})
//	go n.Run(ctx)
//	n.Synchronize(sandboxes)  // from the container runtime: all that there are
//	n.SetPod(meta)            // from the API server: what is said of one
//	n.ClusterKnown()          // all of them have been said
//
// It compares what there is with what should be, and asks the agent for the differences only.
// It does so after each of those calls, when another agent answers, and every half a minute.
// It takes nothing away of which it does not know better: no pod before the runtime has said
// which there are, and no policy before the API server has said what annotations are.
package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/api"
	"weir/internal/base/crowd"
	"weir/internal/core/policy/texts"
	"weir/internal/kube/decide"
)

// Agent is the part of api.Client that is needed.
type Agent interface {
	Status(ctx context.Context) (api.Status, error)
	Workloads(ctx context.Context) ([]api.Workload, error)
	Groups(ctx context.Context) ([]api.Group, error)
	Attach(ctx context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, error)
	Detach(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error)
	SetGroup(ctx context.Context, name string, change api.GroupChange, dryRun bool) (api.ChangeResult, error)
	DeleteGroup(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error)
}

// Options are the parts and settings of a Node.
type Options struct {
	Agent Agent
	// Events takes what people should be told about an object; it must not block.
	Events   func(about decide.Ref, reason, message string)
	Settings decide.Config
	Log      *slog.Logger
	Times    Times
}

// Times are the intervals of a Node; a zero has the default.
type Times struct {
	Look    time.Duration // between looks whether the agent is the same, 2 s
	Compare time.Duration // between comparisons of everything, 30 s
	Grace   time.Duration // how long a pod without its sandbox stays a workload, 30 s
	Again   time.Duration // until what was refused is asked for again, 5 min
	Call    time.Duration // bound of one call of the agent, 15 s
	Mute    time.Duration // how long the runtime may say nothing of a pod that the API server has, 20 s
}

func (t Times) orDefault() Times {
	for _, d := range []struct {
		to *time.Duration
		is time.Duration
	}{{&t.Look, 2 * time.Second}, {&t.Compare, 30 * time.Second}, {&t.Grace, 30 * time.Second}, {&t.Again, 5 * time.Minute}, {&t.Call, 15 * time.Second}, {&t.Mute, 20 * time.Second}} {
		if *d.to == 0 {
			*d.to = d.is
		}
	}
	return t
}

// Meta is what the API server says of a pod.
type Meta struct {
	Namespace, Name, UID string
	// Static is the UID that the runtime knows a static pod by, whose mirror this is; "" = it
	// is no mirror.
	Static      string
	Annotations map[string]string
}

// runtimeUID returns the UID that the runtime knows the pod by.
func (m Meta) runtimeUID() string { return cmp.Or(m.Static, m.UID) }

// Node is what is known. Its methods may be called from any goroutine.
type Node struct {
	opts   Options
	wake   chan struct{}
	silent chan struct{} // takes a value when the runtime is to be asked for all that there are

	health atomic.Pointer[health] // nil = before the first turn

	mu    sync.Mutex
	calls []call // not learnt yet

	// The rest belongs to the goroutine of Run.
	sandboxes map[string]sandbox // by the pod's key
	listed    bool               // the runtime has said which sandboxes there are
	metas     map[string]Meta    // by the pod's key
	unheard   map[string]unheard // pods that the runtime should have told of, by their keys
	asked     time.Time          // when the runtime was last to be asked because of them
	// deleted is when the API server deleted a pod, by the UID that the runtime knows it by. A
	// runtime that was started anew does not say when the sandboxes end that were there before.
	deleted    map[string]time.Time
	changes    crowd.Rates                  // of annotations, by namespace
	late       map[string]Meta              // what pods say beyond that, by their keys
	namespaces map[string]map[string]string // their annotations
	labels     map[string]map[string]string // theirs that allow something
	known      bool                         // the API server has said all
	have       *have
	refused    map[string]refused // by key of a workload or name of a group
	texts      texts.Kept         // of annotations
	told       map[string]bool    // faults that there is an Event about
	down       bool               // the agent did not answer
	compared   time.Time
	started    time.Time // of the agent
}

type sandbox struct {
	decide.Pod
	stopped time.Time // zero = runs
}

// call is something learnt. done is closed when the agent has been asked for what follows.
type call struct {
	learn func()
	done  chan struct{}
}

// New returns a Node that knows nothing; Run makes it work.
func New(opts Options) *Node {
	opts.Times = opts.Times.orDefault()
	return &Node{opts: opts, wake: make(chan struct{}, 1), silent: make(chan struct{}, 1), unheard: map[string]unheard{}, sandboxes: map[string]sandbox{}, metas: map[string]Meta{}, deleted: map[string]time.Time{},
		namespaces: map[string]map[string]string{}, labels: map[string]map[string]string{}, refused: map[string]refused{}, told: map[string]bool{},
		changes: crowd.Rates{Burst: changesAtOnce, Every: changeEvery}, late: map[string]Meta{}}
}

// Run serves until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	look := time.NewTicker(n.opts.Times.Look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.wake:
		case <-look.C:
			n.look(ctx)
			n.giveUp(time.Now())
			n.listen(time.Now())
		}
		calls := n.waiting()
		for _, c := range calls {
			c.learn()
		}
		n.learnLate(time.Now())
		n.pass(ctx)
		n.note(time.Now())
		for _, c := range calls {
			close(c.done)
		}
	}
}

// tell has Run learn something, in the order of the calls. What it returns is closed when the
// agent has been asked for what follows.
func (n *Node) tell(learn func()) <-chan struct{} {
	c := call{learn, make(chan struct{})}
	n.mu.Lock()
	n.calls = append(n.calls, c)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return c.done
}

// waiting takes the calls that are not learnt.
func (n *Node) waiting() []call {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls := n.calls
	n.calls = nil
	return calls
}

// Synchronize says which sandboxes there are. Of a pod with several, the last counts.
func (n *Node) Synchronize(list []decide.Pod) {
	n.tell(func() {
		n.listed = true
		n.sandboxes = map[string]sandbox{}
		for _, s := range list {
			n.sandboxes[s.Key()] = sandbox{Pod: s}
		}
	})
}

// RunSandbox says that there is a sandbox. What it returns is closed when its pod is a workload.
func (n *Node) RunSandbox(s decide.Pod) (known <-chan struct{}) {
	return n.tell(func() { n.sandboxes[s.Key()] = sandbox{Pod: s} })
}

// StopSandbox says that a sandbox ends. Its pod stays a workload for a while, so that it has
// its class and its min when it gets another.
func (n *Node) StopSandbox(id string) {
	n.tell(func() {
		for key, s := range n.sandboxes {
			if s.Sandbox == id && s.stopped.IsZero() {
				s.stopped = time.Now()
				n.sandboxes[key] = s
			}
		}
	})
}

// RemoveSandbox says that a sandbox is gone.
func (n *Node) RemoveSandbox(id string) {
	n.tell(func() {
		for key, s := range n.sandboxes {
			if s.Sandbox == id {
				delete(n.sandboxes, key)
			}
		}
	})
}

// changesAtOnce is how many times the annotations of a namespace's pods may change at once, and
// changeEvery after what time once more. The last word of a pod counts; one beyond is late. Each
// change is a line of the agent's audit log, which the author of a pod must not push out of it.
const (
	changesAtOnce = 200
	changeEvery   = 5 * time.Second
)

// SetPod says what the API server has of a pod.
func (n *Node) SetPod(m Meta) {
	n.tell(func() {
		key := m.Namespace + "/" + m.Name
		delete(n.deleted, m.runtimeUID())
		if was, known := n.metas[key]; !known || was.UID != m.UID || maps.Equal(was.Annotations, m.Annotations) {
			n.metas[key] = m
			delete(n.late, key)
			return
		}
		n.late[key] = m
	})
}

// learnLate takes in what pods say anew, as often as their namespaces may.
func (n *Node) learnLate(now time.Time) {
	for key, m := range n.late {
		if n.changes.Take(m.Namespace, now) {
			n.metas[key] = m
			delete(n.late, key)
		}
	}
}

// DeletePod says that the API server no longer has a pod.
func (n *Node) DeletePod(m Meta) {
	n.tell(func() {
		key := m.Namespace + "/" + m.Name
		if n.metas[key].UID == m.UID {
			delete(n.metas, key)
			delete(n.late, key)
		}
		n.deleted[m.runtimeUID()] = time.Now()
	})
}

// SetNamespace says what the annotations of a namespace are, and its labels.
func (n *Node) SetNamespace(name string, annotations, labels map[string]string) {
	n.tell(func() { n.namespaces[name], n.labels[name] = annotations, labels })
}

// DeleteNamespace says that there is no such namespace.
func (n *Node) DeleteNamespace(name string) {
	n.tell(func() { delete(n.namespaces, name); delete(n.labels, name) })
}

// ClusterKnown says that the API server has said all that it has.
func (n *Node) ClusterKnown() { n.tell(func() { n.known = true }) }

// deletedFor is how long it is known that a pod was deleted. Kubelet removes its sandbox within
// minutes.
const deletedFor = time.Hour

// giveUp forgets the pods whose sandbox ended, or that were deleted, too long ago.
func (n *Node) giveUp(now time.Time) {
	over := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= n.opts.Times.Grace }
	for key, s := range n.sandboxes {
		if over(s.stopped) || over(n.deleted[s.UID]) {
			delete(n.sandboxes, key)
		}
	}
	for uid, since := range n.deleted {
		if now.Sub(since) >= deletedFor {
			delete(n.deleted, uid)
		}
	}
}

// world returns what is known, for package decide.
func (n *Node) world() decide.NodeInput {
	w := decide.NodeInput{Config: n.opts.Settings, Namespaces: n.namespaces, Labels: n.labels, Texts: &n.texts}
	for key, s := range n.sandboxes {
		p := s.Pod
		if m, ok := n.metas[key]; ok && (m.UID == p.UID || m.Static != "" && m.Static == p.UID) {
			p.Static = m.UID != p.UID
			p.UID, p.Annotations = m.UID, m.Annotations // the mirror's UID, of which Events are
		}
		w.Pods = append(w.Pods, p)
	}
	return w
}

// look finds out whether another agent answers, and has everything compared if it does.
func (n *Node) look(ctx context.Context) {
	if n.have == nil {
		return // the pass asks
	}
	if time.Since(n.compared) >= n.opts.Times.Compare {
		n.have = nil
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.opts.Times.Call)
	defer cancel()
	status, err := n.opts.Agent.Status(ctx)
	if err != nil || !status.Started.Equal(n.started) {
		n.have = nil
	}
}
