// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nriapi "github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/face/server"
	"weir/internal/host/agent"
	"weir/internal/host/agent/decide"
	"weir/internal/host/dataplane"
	kernel "weir/internal/host/dataplane/fake"
	"weir/internal/host/discover"
	cluster "weir/internal/kube/decide"
	"weir/internal/kube/node"
	"weir/internal/kube/nri"
	"weir/internal/test/logtest"
)

// bed is a node: the runtime's side of NRI, an API server's metadata, weir-kubernetes, and the
// real agent behind its socket, over a data plane without a kernel.
type bed struct {
	t        *testing.T
	dir      string
	kernel   *kernel.Kernel
	veths    *veths
	client   *fake.FakeMetadataClient
	settings cluster.Config
	probes   string // socket of the plugin, "" = none
	config   string
	log      *logtest.Buffer

	api         *api.Client
	stopAgent   func()
	runtime     *adaptation.Adaptation
	stopRuntime func()
	mute        time.Duration // node.Times.Mute

	mu     sync.Mutex
	pods   map[string]*nriapi.PodSandbox // by id
	events []string
}

// newBed starts an agent on eth0 with 100 Mbit/s, and the runtime.
func newBed(t *testing.T, more string) *bed {
	t.Helper()
	b := bareBed(t)
	b.config = "links: [{device: eth0, egress: 100mbit, ingress: 100mbit}]\n" + more
	b.startAgent()
	b.startRuntime()
	return b
}

// quietRuntime keeps the library of the runtime's side from writing a log.
var quietRuntime = sync.OnceFunc(func() { nrilog.Set(nri.Logger{Logger: slog.New(slog.DiscardHandler)}) })

// bareBed has neither.
func bareBed(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "weir-kube-") // a path short enough for a socket, without a disk to wait for
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, dir: dir, kernel: kernel.NewKernel("eth0", "eth0 ingress"), veths: newVeths(), client: fake.NewSimpleMetadataClient(scheme),
		pods: map[string]*nriapi.PodSandbox{}, log: &logtest.Buffer{}}
	b.settings.Weights = map[cluster.QoSClass]uint32{}
	b.api = api.NewClient(b.socket())
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
	quietRuntime()
	return b
}

func (b *bed) socket() string { return filepath.Join(b.dir, "weir.sock") }

func (b *bed) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// startAgent runs an agent and its server until stopAgent or the end of the test.
func (b *bed) startAgent() {
	b.t.Helper()
	c, err := config.Parse("", []byte(b.config))
	if err != nil {
		b.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	records := audit.New(filepath.Join(b.dir, "audit.log"), log)
	a, err := agent.New(agent.Options{Config: c, StateDir: b.dir, Log: log, Audit: records,
		Devices: agent.Devices{Names: b.kernel.Devices, Open: func(l config.Link) (dataplane.Backend, error) { return b.kernel.Open(l.Name()) }},
		Sources: []discover.Source{b.veths}, Attach: b.veths})
	if err != nil {
		b.t.Fatal(err)
	}
	s := server.New(a, server.Options{Socket: b.socket(), Audit: records, Log: log})
	if err := s.Listen(); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.Serve(ctx) })
	parts.Go(func() {
		if err := a.Run(ctx); err != nil {
			b.t.Errorf("agent: %v", err)
		}
	})
	b.stopAgent = sync.OnceFunc(func() { cancel(); parts.Wait() })
	b.t.Cleanup(b.stopAgent)
	if _, err := a.Status(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// startRuntime runs the runtime's side of NRI until the end of the test.
func (b *bed) startRuntime() {
	b.t.Helper()
	r, err := adaptation.New("containerd", "v2.4.2", func(ctx context.Context, synchronize adaptation.SyncCB) error {
		b.mu.Lock()
		list := slices.Collect(maps.Values(b.pods))
		b.mu.Unlock()
		_, err := synchronize(ctx, list, nil)
		return err
	}, func(context.Context, []*nriapi.ContainerUpdate) ([]*nriapi.ContainerUpdate, error) { return nil, nil },
		adaptation.WithPluginPath(filepath.Join(b.dir, "plugins")), adaptation.WithPluginConfigPath(filepath.Join(b.dir, "conf.d")),
		adaptation.WithSocketPath(filepath.Join(b.dir, "runtime.sock")))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		b.t.Fatal(err)
	}
	hangUp := b.relay()
	b.runtime = r
	b.stopRuntime = sync.OnceFunc(func() { r.Stop(); hangUp() })
	b.t.Cleanup(b.stopRuntime)
}

// relay carries the connections of plugins to the runtime until it is told to end them: the
// library's runtime keeps them when it stops, which a process that ends does not.
func (b *bed) relay() (hangUp func()) {
	b.t.Helper()
	listener, err := net.Listen("unix", filepath.Join(b.dir, "nri.sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	var (
		mu    sync.Mutex
		conns []net.Conn
	)
	go func() {
		for {
			plugin, err := listener.Accept()
			if err != nil {
				return
			}
			runtime, err := net.Dial("unix", filepath.Join(b.dir, "runtime.sock"))
			if err != nil {
				_ = plugin.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, plugin, runtime)
			mu.Unlock()
			go func() { _, _ = io.Copy(plugin, runtime); _ = plugin.Close() }()
			go func() { _, _ = io.Copy(runtime, plugin); _ = runtime.Close() }()
		}
	}()
	return func() {
		_ = listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

// plugin runs weir-kubernetes until the returned function is called, and waits until it knows
// runtime and API server.
func (b *bed) plugin() (stop func()) {
	b.t.Helper()
	before := strings.Count(b.log.String(), "API server is there")
	stop = b.pluginAlone()
	b.until("the API server has answered", func() bool { return strings.Count(b.log.String(), "API server is there") > before })
	return stop
}

// pluginAlone does the same without an API server that answers.
func (b *bed) pluginAlone() (stop func()) {
	b.t.Helper()
	before := strings.Count(b.log.String(), "container runtime is there")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o := &options{probes: b.probes, node: "n1", socket: b.socket(), runtime: filepath.Join(b.dir, "nri.sock"), Config: b.settings}
	note := func(about cluster.Ref, reason, message string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, fmt.Sprintf("%s %s/%s %s: %s", about.Kind, about.Namespace, about.Name, reason, message))
	}
	times := node.Times{Look: 20 * time.Millisecond, Compare: 300 * time.Millisecond, Grace: 400 * time.Millisecond, Mute: b.mute}
	go func() { done <- serve(ctx, o, b.client, note, times, b.logger()) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(stop)
	b.until("the plugin is connected", func() bool { return strings.Count(b.log.String(), "container runtime is there") > before })
	b.until("the runtime has the plugin", func() bool { block := b.runtime.BlockPluginSync(); block.Unblock(); return true })
	return stop
}

// patience is how long a test waits for what has to come: far longer than it takes on a busy
// machine with the race detector.
const patience = 3 * time.Minute

// until waits for something to be so.
func (b *bed) until(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not within %v: %s; eth0 has\n%s", patience, what, b.state())
		}
	}
}

// pod is a pod's sandbox, with annotations "weir.dev/min", "20M", ...
func pod(name, id string, annotations ...string) *nriapi.PodSandbox {
	namespace, name, _ := strings.Cut(name, "/")
	s := &nriapi.PodSandbox{Id: id, Name: name, Namespace: namespace, Uid: "uid-" + name, Annotations: pairs(annotations), Linux: &nriapi.LinuxPodSandbox{
		CgroupParent: "kubepods-burstable-pod" + id + ".slice",
		Namespaces:   []*nriapi.LinuxNamespace{{Type: "network", Path: "/proc/self/ns/net"}, {Type: "ipc", Path: "/proc/self/ns/ipc"}}}}
	return s
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

// run has the runtime start a sandbox and a container in it; it returns when that runs.
func (b *bed) run(s *nriapi.PodSandbox) {
	b.t.Helper()
	b.sandbox(s)
	b.container(s)
}

// there makes a sandbox that the runtime does not tell of before it is asked for all.
func (b *bed) there(s *nriapi.PodSandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods[s.Id] = s
}

func (b *bed) sandbox(s *nriapi.PodSandbox) {
	b.t.Helper()
	b.there(s)
	if err := b.runtime.RunPodSandbox(b.t.Context(), &adaptation.RunPodSandboxRequest{Pod: s}); err != nil {
		b.t.Errorf("sandbox of %s: %v", s.Name, err)
	}
}

func (b *bed) container(s *nriapi.PodSandbox) {
	b.t.Helper()
	if err := b.runtime.StartContainer(b.t.Context(), &adaptation.StartContainerRequest{Pod: s, Container: &nriapi.Container{Id: s.Id + "-1", PodSandboxId: s.Id}}); err != nil {
		b.t.Errorf("container of %s: %v", s.Name, err)
	}
}

func (b *bed) stop(s *nriapi.PodSandbox) {
	b.t.Helper()
	if err := b.runtime.StopPodSandbox(b.t.Context(), &adaptation.StopPodSandboxRequest{Pod: s}); err != nil {
		b.t.Error(err)
	}
}

func (b *bed) remove(s *nriapi.PodSandbox) {
	b.t.Helper()
	b.stop(s)
	b.mu.Lock()
	delete(b.pods, s.Id)
	b.mu.Unlock()
	if err := b.runtime.RemovePodSandbox(b.t.Context(), &adaptation.RemovePodSandboxRequest{Pod: s}); err != nil {
		b.t.Error(err)
	}
}

// annotate has the API server say a pod's annotations.
func (b *bed) annotate(name string, annotations ...string) {
	b.t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Annotations: pairs(annotations)}}
	b.put("pods", namespace, o)
}

// deletePod has the API server delete a pod.
func (b *bed) deletePod(name string) {
	b.t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	if err := b.client.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, name); err != nil {
		b.t.Error(err)
	}
}

// annotateNamespace has the API server say a namespace's annotations.
func (b *bed) annotateNamespace(name string, annotations ...string) {
	b.t.Helper()
	b.put("namespaces", "", &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: pairs(annotations)}})
}

func (b *bed) put(resource, namespace string, o *metav1.PartialObjectMetadata) {
	b.t.Helper()
	what := metav1.SchemeGroupVersion.WithResource(resource)
	what.Group, what.Version = "", "v1"
	tracker := b.client.Tracker()
	if err := tracker.Create(what, o, namespace); err == nil {
		return
	}
	if err := tracker.Update(what, o, namespace); err != nil {
		b.t.Error(err)
	}
}

// state is what eth0 has, both directions: "default/web weight 3 min 20 Mbit/s".
func (b *bed) state() string {
	var lines []string
	for _, link := range []string{"eth0", "eth0 ingress"} {
		s := b.kernel.State(link)
		names := map[plan.ClassID]string{}
		for _, c := range s.Classes {
			names[c.ID] = c.Name
		}
		for _, c := range s.Classes {
			text := fmt.Sprintf("%s weight %d", c.Name, c.Weight)
			if c.Min > 0 {
				text += fmt.Sprintf(" min %v", c.Min)
			}
			if c.Max > 0 {
				text += fmt.Sprintf(" max %v", c.Max)
			}
			if c.Parent != 0 {
				text += " in " + names[c.Parent]
			}
			for _, p := range s.Ports {
				if p.Class == c.ID {
					text += " " + cmp.Or(p.Device, "cgroup")
				}
			}
			if link != "eth0" {
				text = "ingress: " + text
			}
			if c.Name != "host" && (link == "eth0" || c.Weight != 1 || c.Min+c.Max > 0) {
				lines = append(lines, text)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// expect waits until eth0 has what it should.
func (b *bed) expect(what string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	for end := time.Now().Add(5 * time.Second); b.state() != strings.Join(want, "\n"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s: eth0 has\n%s\nwant\n%s", what, b.state(), strings.Join(want, "\n"))
		}
	}
}

// told returns the Events since the last call, in order of their text.
func (b *bed) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.events
	b.events = nil
	slices.Sort(list)
	return list
}

// changes are the requests that changed something, or were to, as the audit log has them.
func (b *bed) changes() (list []string) {
	b.t.Helper()
	entries, err := b.api.Audit(b.t.Context(), audit.Query{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, strings.Join([]string{e.Action, e.Object, e.Result, e.Reason}, " "))
	}
	return list
}

// veths gives each pod a veth of its own, as discover.Pods finds it in its namespace.
type veths struct {
	poke chan struct{}
	mu   sync.Mutex
	list map[string]discover.Workload
}

func newVeths() *veths {
	return &veths{poke: make(chan struct{}, 1), list: map[string]discover.Workload{}}
}

func (v *veths) Name() string { return "pod" }

func (v *veths) Run(ctx context.Context, report func([]discover.Workload)) error {
	for {
		v.mu.Lock()
		list := slices.Collect(maps.Values(v.list))
		v.mu.Unlock()
		report(list)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-v.poke:
		}
	}
}

func (v *veths) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	select {
	case v.poke <- struct{}{}:
	default:
	}
}

func (v *veths) Attach(at config.Attachment, _ bool) error {
	v.change(func() {
		w := decide.WorkloadOf(at)
		w.Devices, w.Cgroups = v.Look(at)
		v.list[w.Key] = w
	})
	return nil
}

func (v *veths) Look(at config.Attachment) (devices []discover.Device, cgroups []string) {
	if at.Netns == "" {
		return nil, []string{at.Cgroup}
	}
	index := int(crc32.ChecksumIEEE([]byte(at.Pod)))
	return []discover.Device{{Name: "veth-" + at.Pod, Ifindex: index}}, nil
}

func (v *veths) Detach(at config.Attachment) error {
	v.change(func() { delete(v.list, decide.WorkloadOf(at).Key) })
	return nil
}
