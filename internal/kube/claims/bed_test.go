// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/host/agent"
	"weir/internal/host/dataplane"
	kernel "weir/internal/host/dataplane/fake"
	"weir/internal/kube/claims/translate"
	"weir/internal/test/logtest"
)

// bed is a node n1: the real agent over a data plane without a kernel, an API server in memory,
// and the driver, which is called as kubelet calls it, over its socket.
type bed struct {
	t      *testing.T
	dir    string
	kernel *kernel.Kernel
	client *fake.Clientset
	// through is the client that the driver has, client itself by default.
	through kubernetes.Interface
	log     *logtest.Buffer
	config  string
	agent   *behind
	taken   atomic.Bool // kubelet has taken the driver, as the driver says

	stopAgent, stopDriver func()
}

// behind is an agent that may be away.
type behind struct {
	mu sync.Mutex
	a  *agent.Agent
}

func (b *behind) get() (*agent.Agent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.a == nil {
		return nil, api.ErrNoAgent
	}
	return b.a, nil
}

func (b *behind) set(a *agent.Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.a = a
}

func (b *behind) Status(ctx context.Context) (api.Status, error) {
	a, err := b.get()
	if err != nil {
		return api.Status{}, err
	}
	return a.Status(ctx)
}

func (b *behind) Allocations(ctx context.Context) ([]api.Allocation, error) {
	a, err := b.get()
	if err != nil {
		return nil, err
	}
	return a.Allocations(ctx)
}

func (b *behind) Allocate(ctx context.Context, name string, req api.AllocationRequest, dryRun bool) (api.ChangeResult, error) {
	a, err := b.get()
	if err != nil {
		return api.ChangeResult{}, err
	}
	return a.Allocate(ctx, name, req, dryRun)
}

func (b *behind) Release(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	a, err := b.get()
	if err != nil {
		return api.ChangeResult{}, err
	}
	return a.Release(ctx, name, dryRun)
}

// patienceOfTests is long, since the agent itself looks for a lost device every 8 s at last, and
// the machine may be busy.
const patienceOfTests = 40 * time.Second

const oneLink = "links: [{device: eth0, egress: 100mbit}]"

// newBed starts an agent with a configuration, and the driver.
func newBed(t *testing.T, text string) *bed {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp("", "weir-dra-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
	b := &bed{t: t, dir: dir, kernel: kernel.NewKernel("eth0", "eth0 ingress", "eth1"), client: fake.NewClientset(node), log: &logtest.Buffer{}, config: text, agent: &behind{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
	b.through = b.client
	var made atomic.Int64
	b.client.PrependReactor("create", "resourceslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s := action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceSlice)
		if s.Name == "" { // as the API server does
			s.Name = fmt.Sprintf("%s%d", s.GenerateName, made.Add(1))
		}
		return false, nil, nil
	})
	b.startAgent()
	b.startDriver()
	return b
}

// startAgent runs an agent until stopAgent or the end of the test.
func (b *bed) startAgent() {
	b.t.Helper()
	c, err := config.Parse("", []byte(b.config))
	if err != nil {
		b.t.Fatal(err)
	}
	a, err := agent.New(agent.Options{Config: c, StateDir: b.dir, Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Devices: agent.Devices{Names: b.kernel.Devices, Open: func(l config.Link) (dataplane.Backend, error) { return b.kernel.Open(l.Name()) }}})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	b.agent.set(a)
	b.stopAgent = sync.OnceFunc(func() {
		b.agent.set(nil)
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("agent: %v", err)
		}
	})
	b.t.Cleanup(b.stopAgent)
	b.until("the agent steers", func() bool {
		s, err := a.Status(b.t.Context())
		return err == nil && len(s.Links) > 0 && s.Links[0].Backend != "none"
	})
}

// startDriver runs a driver until stopDriver or the end of the test.
func (b *bed) startDriver() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o := Options{Node: "n1", Client: b.through, Agent: b.agent, Kubelet: b.dir, Poll: 20 * time.Millisecond, Patience: 200 * time.Millisecond,
		Registered: func() { b.taken.Store(true) }, Log: slog.New(slog.NewTextHandler(b.log, nil))}
	go func() { done <- Run(ctx, o) }()
	b.stopDriver = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			b.t.Errorf("driver: %v", err)
		}
	})
	b.t.Cleanup(b.stopDriver)
	b.until("the driver serves", func() bool {
		conn, err := net.Dial("unix", b.socket())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (b *bed) socket() string { return filepath.Join(b.dir, "plugins", translate.Driver, "dra.sock") }

// until waits for something to be so.
func (b *bed) until(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patienceOfTests); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("not in time: %s; slices %s, eth0 has\n%s", what, b.slices(), b.state())
		}
	}
}

// state returns the mins of the kernel's classes: "shop/web 60 Mbit/s".
func (b *bed) state() string {
	var lines []string
	for _, c := range b.kernel.State("eth0").Classes {
		if c.Min > 0 || c.Group {
			lines = append(lines, fmt.Sprintf("%s %s", c.Name, c.Min))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// holds waits until the kernel has these mins, see state.
func (b *bed) holds(what, want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s: mins %q", what, want), func() bool { return b.state() == want })
}

// slices returns the devices of the published slices: "eth0 100M", "eth0 0 weir.dev/agent".
func (b *bed) slices() string {
	list, err := b.client.ResourceV1().ResourceSlices().List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var text []string
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			q := d.Capacity[translate.Egress].Value
			line := d.Name + " " + q.String()
			for _, taint := range d.Taints {
				line += " " + taint.Key
			}
			text = append(text, line)
		}
	}
	return strings.Join(text, ", ")
}

func (b *bed) publishes(what, want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s: slices %q", what, want), func() bool { return b.slices() == want })
}

// claim makes an allocated claim of the namespace shop, for pods, of "60M" of eth0; one that is
// named like its pod is of a template.
func (b *bed) claim(name, amount string, pods ...string) *resourceapi.ResourceClaim {
	b.t.Helper()
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}}
	if slices.Equal(pods, []string{name}) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID("pod-" + name), Controller: new(true)}}
	}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
		Request: "link", Driver: translate.Driver, Pool: "n1", Device: "eth0", ShareID: new(types.UID("3f1c1f7e-1d6a-4d6e-8a53-0d8f4f0a0001")),
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{translate.Egress: resource.MustParse(amount)}}}}}
	c.Status.ReservedFor = reservedFor(pods)
	made, err := b.client.ResourceV1().ResourceClaims("shop").Create(b.t.Context(), c, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return made
}

func reservedFor(pods []string) (list []resourceapi.ResourceClaimConsumerReference) {
	for _, p := range pods {
		list = append(list, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID("pod-" + p)})
	}
	return list
}

// reserve makes other pods those that a claim is reserved for, as the scheduler does.
func (b *bed) reserve(name string, pods ...string) {
	b.t.Helper()
	c := b.get(name)
	c.Status.ReservedFor = reservedFor(pods)
	if _, err := b.client.ResourceV1().ResourceClaims("shop").UpdateStatus(b.t.Context(), c, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) get(name string) *resourceapi.ResourceClaim {
	b.t.Helper()
	c, err := b.client.ResourceV1().ResourceClaims("shop").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bed) remove(name string) {
	b.t.Helper()
	if err := b.client.ResourceV1().ResourceClaims("shop").Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// kubelet returns a connection to the driver, as kubelet has one.
func (b *bed) kubelet() dra.DRAPluginClient {
	b.t.Helper()
	conn, err := grpc.NewClient("unix:"+b.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return dra.NewDRAPluginClient(conn)
}

// prepare has kubelet prepare a claim; the error is the driver's answer.
func (b *bed) prepare(c *resourceapi.ResourceClaim) error {
	b.t.Helper()
	reply, err := b.kubelet().NodePrepareResources(b.t.Context(), &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		return err
	}
	one := reply.Claims[string(c.UID)]
	if one.GetError() != "" {
		return errors.New(one.Error)
	}
	if len(one.Devices) != len(c.Status.Allocation.Devices.Results) || one.Devices[0].PoolName != "n1" || len(one.Devices[0].CdiDeviceIds) != 0 {
		b.t.Errorf("prepared: %+v", one)
	}
	return nil
}

func (b *bed) unprepare(c *resourceapi.ResourceClaim) error {
	b.t.Helper()
	reply, err := b.kubelet().NodeUnprepareResources(b.t.Context(), &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}}})
	if err != nil {
		return err
	}
	if text := reply.Claims[string(c.UID)].GetError(); text != "" {
		return errors.New(text)
	}
	return nil
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// says waits until the condition of a claim's device has a status and a text in its message.
func (b *bed) says(name string, status metav1.ConditionStatus, text string) {
	b.t.Helper()
	var last []resourceapi.AllocatedDeviceStatus
	for end := time.Now().Add(patienceOfTests); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		last = b.get(name).Status.Devices
		if len(last) == 1 && len(last[0].Conditions) == 1 && last[0].Conditions[0].Status == status && strings.Contains(last[0].Conditions[0].Message, text) {
			return
		}
	}
	b.t.Fatalf("claim %s: not in time: %s %q; it has %+v", name, status, text, last)
}

// requests counts the requests to the API server so far; a watch that goes on is one.
func (b *bed) requests() int { return len(b.client.Actions()) }
