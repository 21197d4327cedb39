// SPDX-License-Identifier: Apache-2.0

// Package nri says which sandboxes of pods the container runtime has, by NRI: the whole list
// when it connects, and each sandbox before a container of it starts.
//
// The runtime waits for the answer to each call, and lets a pod fail if the answer is an
// error. So there is none. A sandbox waits for nothing: the pod gets its class while the runtime
// prepares the first container, which sends no packet before it starts. Its start waits until
// the pod is a workload, at most for patience since the sandbox, whatever the agent does.
package nri

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"weir/internal/base/retry"
	"weir/internal/core/bound"
	"weir/internal/kube/decide"
)

// DefaultSocket is where containerd and CRI-O listen for plugins.
const DefaultSocket = "/var/run/nri/nri.sock"

// The name and the place of the plugin among the runtime's. It changes no container, so any
// place would do.
const (
	pluginName  = "weir"
	pluginIndex = "90"
)

// patience is how long after its sandbox a container waits for the pod's class. The runtime gives
// a plugin 2 seconds.
const patience = 500 * time.Millisecond

// Sink takes what is learnt.
type Sink interface {
	Synchronize(sandboxes []decide.Pod)
	RunSandbox(sandbox decide.Pod) (known <-chan struct{}) // closed when the pod is a workload
	StopSandbox(id string)
	RemoveSandbox(id string)
}

// Run serves the calls of the runtime at a socket until ctx ends. It connects again when the
// runtime has gone, and when silent has a value: a runtime that is connected anew says all that
// there are.
func Run(ctx context.Context, socket string, n Sink, silent <-chan struct{}, log *slog.Logger) error {
	pauses := retry.New(100*time.Millisecond, 2*time.Second)
	level := slog.LevelWarn // of the message that the runtime is away: one warning each time
	for ctx.Err() == nil {
		p := newPlugin(n, log)
		s, err := stub.New(p, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket),
			stub.WithLogger(Logger{log}), stub.WithOnClose(func() {}))
		if err != nil {
			return fmt.Errorf("NRI plugin: %w", err)
		}
		anew := false
		anew, err = untilSilent(ctx, silent, s.Run)
		if ctx.Err() != nil {
			break
		}
		if anew && p.synchronized.Load() {
			log.Info("container runtime has said nothing of a pod for a while, asking it for all", "socket", socket)
			continue
		}
		if p.synchronized.Load() {
			pauses.Reset()
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "container runtime is away; pods stay as they are", "socket", socket, "err", err)
		level = slog.LevelDebug
		if !pauses.Wait(ctx) {
			break
		}
	}
	return ctx.Err()
}

// untilSilent runs a connection until it ends, or silent has a value.
func untilSilent(ctx context.Context, silent <-chan struct{}, run func(context.Context) error) (anew bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case err := <-ended:
		return false, err
	case <-silent:
		cancel()
		return true, <-ended
	}
}

// plugin has the calls that the runtime makes.
type plugin struct {
	node         Sink
	log          *slog.Logger
	synchronized atomic.Bool

	mu       sync.Mutex
	starting map[string]start // by sandbox: those none of whose containers was started
}

// start is what a sandbox's first container waits for, and until when.
type start struct {
	known <-chan struct{}
	until time.Time
}

func newPlugin(n Sink, log *slog.Logger) *plugin {
	return &plugin{node: n, log: log, starting: map[string]start{}}
}

// Synchronize is called once, with all that there is.
func (p *plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	p.synchronized.Store(true)
	list := current(pods, containers, func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	})
	p.log.Info("container runtime is there", "pods", len(list))
	p.node.Synchronize(list)
	return nil, nil
}

func (p *plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	begun := start{p.node.RunSandbox(podOf(pod)), time.Now().Add(patience)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting[pod.GetId()] = begun
	return nil
}

// StartContainer is called before a container's program runs.
func (p *plugin) StartContainer(ctx context.Context, pod *api.PodSandbox, _ *api.Container) error {
	p.mu.Lock()
	begun, first := p.starting[pod.GetId()]
	p.mu.Unlock()
	if !first {
		return nil
	}
	defer p.started(pod.GetId())
	ctx, cancel := context.WithDeadline(ctx, begun.until)
	defer cancel()
	select {
	case <-begun.known:
	case <-ctx.Done():
		p.log.Warn("pod starts without its class; it gets it as soon as the agent answers", "namespace", pod.GetNamespace(), "pod", pod.GetName())
	}
	return nil
}

// started says that nothing waits for a sandbox any more.
func (p *plugin) started(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.starting, id)
}

func (p *plugin) StopPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.node.StopSandbox(pod.GetId())
	return nil
}

func (p *plugin) RemovePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	p.started(pod.GetId())
	p.node.RemoveSandbox(pod.GetId())
	return nil
}

// current returns the sandboxes, one for each pod: where the runtime still has former ones, the
// one with containers, and among these one whose network namespace is there.
func current(pods []*api.PodSandbox, containers []*api.Container, exists func(file string) bool) []decide.Pod {
	runs := map[string]bool{}
	for _, c := range containers {
		switch c.GetState() {
		case api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_CREATED, api.ContainerState_CONTAINER_PAUSED:
			runs[c.GetPodSandboxId()] = true
		}
	}
	rank := func(p decide.Pod) int {
		r := 0
		if runs[p.Sandbox] {
			r += 2
		}
		if p.Netns == "" || exists(p.Netns) {
			r++
		}
		return r
	}
	place := map[string]int{}
	var list []decide.Pod
	for _, pod := range pods {
		p := podOf(pod)
		i, taken := place[p.Key()]
		switch {
		case !runs[p.Sandbox] && (tornDown(pod) || p.Netns != "" && !exists(p.Netns)):
			// It has ended; the runtime keeps its record for a while.
		case !taken:
			place[p.Key()] = len(list)
			list = append(list, p)
		case rank(p) >= rank(list[i]):
			list[i] = p
		}
	}
	return list
}

// tornDown reports whether a sandbox had a network namespace and has it no longer: containerd
// lists it without. One with the host's network has no UTS namespace of its own either.
func tornDown(s *api.PodSandbox) bool {
	has := map[string]bool{}
	for _, ns := range s.GetLinux().GetNamespaces() {
		has[ns.GetType()] = true
	}
	return has["uts"] && !has["network"]
}

// podOf returns what a sandbox says of its pod.
func podOf(s *api.PodSandbox) decide.Pod {
	p := decide.Pod{Namespace: s.GetNamespace(), Name: s.GetName(), UID: s.GetUid(), Sandbox: s.GetId(), Annotations: s.GetAnnotations()}
	for _, ns := range s.GetLinux().GetNamespaces() {
		if ns.GetType() == "network" {
			p.Netns = bounded(ns.GetPath())
		}
	}
	parent := bounded(s.GetLinux().GetCgroupParent())
	p.Cgroup, p.QoS = cgroupPath(parent), qosOf(parent)
	return p
}

// bounded returns a path, "" for one that is longer than the kernel takes.
func bounded(file string) string {
	if len(file) >= bound.Path {
		return ""
	}
	return file
}

// cgroupPath returns the path of a cgroup below the mount. With cgroupfs the kubelet says it;
// with systemd it says the name of a slice, which is in the folders of the slices that its
// name begins with: kubepods-burstable-podX.slice in
// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podX.slice.
func cgroupPath(parent string) string {
	name, slice := strings.CutSuffix(path.Base(parent), ".slice")
	if parent == "" || !slice || strings.Count(parent, "/") > 0 || len(parent) > bound.Name { // no unit has a longer name
		return parent
	}
	full, prefix := "/", ""
	for part := range strings.SplitSeq(name, "-") {
		prefix += part
		full = path.Join(full, prefix+".slice")
		prefix += "-"
	}
	return full
}

// qosOf returns the class of a pod, which the kubelet writes into its cgroup's name unless the
// pod is Guaranteed.
func qosOf(parent string) decide.QoSClass {
	switch {
	case strings.Contains(parent, "besteffort"):
		return decide.BestEffort
	case strings.Contains(parent, "burstable"):
		return decide.Burstable
	}
	return decide.Guaranteed
}

// Logger gives NRI's messages to slog. All are details but errors.
type Logger struct{ *slog.Logger }

// Debugf implements log.Logger.
func (l Logger) Debugf(ctx context.Context, format string, args ...any) { l.detail(ctx, format, args) }

// Infof implements log.Logger.
func (l Logger) Infof(ctx context.Context, format string, args ...any) { l.detail(ctx, format, args) }

// Warnf implements log.Logger.
func (l Logger) Warnf(ctx context.Context, format string, args ...any) { l.detail(ctx, format, args) }

// Errorf implements log.Logger.
func (l Logger) Errorf(ctx context.Context, format string, args ...any) {
	l.WarnContext(ctx, fmt.Sprintf(format, args...))
}

func (l Logger) detail(ctx context.Context, format string, args []any) {
	l.DebugContext(ctx, fmt.Sprintf(format, args...))
}
