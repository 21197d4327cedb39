// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"

	"weir/internal/core/bound"
	"weir/internal/kube/decide"
)

func TestCgroupPath(t *testing.T) {
	for parent, want := range map[string]struct {
		path string
		qos  decide.QoSClass
	}{
		"kubepods-burstable-pod1_2.slice":    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice", decide.Burstable},
		"kubepods-besteffort-pod1_2.slice":   {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice", decide.BestEffort},
		"kubepods-pod1_2.slice":              {"/kubepods.slice/kubepods-pod1_2.slice", decide.Guaranteed},
		"/kubepods/burstable/pod1-2":         {"/kubepods/burstable/pod1-2", decide.Burstable},
		"/kubepods/pod1-2":                   {"/kubepods/pod1-2", decide.Guaranteed},
		"/kubelet.slice/kubepods-pod1.slice": {"/kubelet.slice/kubepods-pod1.slice", decide.Guaranteed},
		"":                                   {"", decide.Guaranteed},
	} {
		if got := cgroupPath(parent); got != want.path {
			t.Errorf("%q is %q, want %q", parent, got, want.path)
		}
		if got := qosOf(parent); got != want.qos {
			t.Errorf("%q is of class %s, want %s", parent, got, want.qos)
		}
	}
}

// TestPathsBeyondTheKernels: a path that the kernel would not take is none.
func TestPathsBeyondTheKernels(t *testing.T) {
	long := "/" + strings.Repeat("a", bound.Path-1)
	p := podOf(&api.PodSandbox{Linux: &api.LinuxPodSandbox{CgroupParent: long, Namespaces: []*api.LinuxNamespace{{Type: "network", Path: long}}}})
	if p.Cgroup != "" || p.Netns != "" {
		t.Errorf("%d and %d bytes are kept", len(p.Cgroup), len(p.Netns))
	}
}

// TestRuntimeAway: that the runtime is away is said once, however often it is looked for.
func TestRuntimeAway(t *testing.T) {
	var said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := Run(ctx, filepath.Join(t.TempDir(), "none.sock"), nil, nil, log); err == nil {
		t.Error("no error")
	}
	if n := strings.Count(said.String(), "container runtime is away"); n < 2 {
		t.Errorf("the runtime was looked for %d times, want several:\n%s", n, said.String())
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, said.String())
	}
}

// slowNode knows a pod as soon as its channel is closed.
type slowNode struct {
	Sink
	known   map[string]chan struct{} // by sandbox
	stopped []string
}

func (n *slowNode) RunSandbox(s decide.Pod) <-chan struct{} { return n.known[s.Sandbox] }
func (n *slowNode) StopSandbox(id string)                   { n.stopped = append(n.stopped, id) }

// TestFirstContainerWaits: a sandbox waits for nothing, and its containers do not start before
// its pod is a workload, or the sandbox has been there for patience.
func TestFirstContainerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		n := &slowNode{known: map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{}), "c": make(chan struct{})}}
		p := newPlugin(n, slog.New(slog.NewTextHandler(&said, nil)))
		ctx, sandbox := t.Context(), func(id string) *api.PodSandbox { return &api.PodSandbox{Id: id, Name: id} }
		begun := time.Now()
		took := func(what string, want time.Duration, err error) {
			t.Helper()
			if d := time.Since(begun); d != want || err != nil {
				t.Errorf("%s after %v, want %v; error %v", what, d, want, err)
			}
			begun = time.Now()
		}
		took("sandbox a", 0, p.RunPodSandbox(ctx, sandbox("a")))
		time.AfterFunc(20*time.Millisecond, func() { close(n.known["a"]) })
		took("a's first container", 20*time.Millisecond, p.StartContainer(ctx, sandbox("a"), nil))
		took("a's second container", 0, p.StartContainer(ctx, sandbox("a"), nil))
		took("a container of a sandbox that was there before", 0, p.StartContainer(ctx, sandbox("z"), nil))

		took("sandbox b", 0, p.RunPodSandbox(ctx, sandbox("b")))
		time.Sleep(100 * time.Millisecond)
		took("b's first container, while nothing answers", patience, p.StartContainer(ctx, sandbox("b"), nil))
		if strings.Count(said.String(), "pod starts without its class") != 1 || !strings.Contains(said.String(), "pod=b") {
			t.Errorf("said: %s", said.String())
		}
		took("b's second container", 0, p.StartContainer(ctx, sandbox("b"), nil))

		took("sandbox c", 0, p.RunPodSandbox(ctx, sandbox("c")))
		took("c stops", 0, p.StopPodSandbox(ctx, sandbox("c")))
		took("c is removed", 0, p.RemovePodSandbox(ctx, sandbox("c")))
		if len(p.starting) != 0 || len(n.stopped) != 1 {
			t.Errorf("%d sandboxes are waited for, stopped %v", len(p.starting), n.stopped)
		}
	})
}

func (n *slowNode) RemoveSandbox(string) {}

// TestCurrent: of several sandboxes of a pod the one that runs counts, whatever their order.
func TestCurrent(t *testing.T) {
	box := func(id, netns string) *api.PodSandbox {
		s := &api.PodSandbox{Id: id, Namespace: "shop", Name: "web", Linux: &api.LinuxPodSandbox{}}
		if netns != "" {
			s.Linux.Namespaces = []*api.LinuxNamespace{{Type: "network", Path: netns}}
		}
		return s
	}
	// containerd lists sandboxes that have ended without the network namespace that they had.
	tornDown := func(id string) *api.PodSandbox {
		s := box(id, "")
		s.Linux.Namespaces = []*api.LinuxNamespace{{Type: "pid"}, {Type: "ipc"}, {Type: "uts"}, {Type: "mount"}}
		return s
	}
	runs := func(id string) *api.Container {
		return &api.Container{PodSandboxId: id, State: api.ContainerState_CONTAINER_RUNNING}
	}
	exited := &api.Container{PodSandboxId: "old", State: api.ContainerState_CONTAINER_STOPPED}
	exists := func(file string) bool { return strings.HasPrefix(file, "/run") }
	for _, tt := range []struct {
		what       string
		pods       []*api.PodSandbox
		containers []*api.Container
		want       string
	}{
		{"none", nil, nil, ""},
		{"one", []*api.PodSandbox{box("a", "/run/a")}, nil, "a"},
		{"its namespace is gone", []*api.PodSandbox{box("a", "/gone")}, nil, ""},
		{"its namespace is not listed any more", []*api.PodSandbox{tornDown("a")}, nil, ""},
		{"the same, and a container runs", []*api.PodSandbox{tornDown("a")}, []*api.Container{runs("a")}, "a"},
		{"of the host's network", []*api.PodSandbox{box("a", "")}, nil, "a"},
		{"a former one", []*api.PodSandbox{box("old", "/gone"), box("new", "/run/a")}, []*api.Container{exited, runs("new")}, "new"},
		{"the other order", []*api.PodSandbox{box("new", "/run/a"), box("old", "/gone")}, []*api.Container{exited, runs("new")}, "new"},
		{"both namespaces are there", []*api.PodSandbox{box("new", "/run/a"), box("old", "/run/b")}, []*api.Container{exited, runs("new")}, "new"},
		{"host network", []*api.PodSandbox{box("new", ""), box("old", "")}, []*api.Container{runs("new")}, "new"},
		{"a namespace that is not seen, with containers", []*api.PodSandbox{box("a", "/elsewhere")}, []*api.Container{runs("a")}, "a"},
	} {
		got := ""
		for _, p := range current(tt.pods, tt.containers, exists) {
			got += p.Sandbox
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}
