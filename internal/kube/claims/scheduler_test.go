// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/host/agent"
	"weir/internal/host/dataplane"
	kernel "weir/internal/host/dataplane/fake"
	"weir/internal/kube/claims/translate"
	"weir/internal/test/logtest"
)

// cluster is nodes with the real agent each, and the code by which the scheduler allocates.
type cluster struct {
	t       *testing.T
	nodes   []*clusterNode
	classes classes
	cel     *cel.Cache
	// taken is what allocated claims consume, as the scheduler counts it.
	taken structured.ConsumedCapacityCollection
}

type clusterNode struct {
	name  string
	agent *agent.Agent
	links []clusterLink
}

// clusterLink is a link with what its mins may take in each direction: the oracle's view.
type clusterLink struct {
	device string
	free   map[resourceapi.QualifiedName]int64
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("no device class %s", name)
}

var linkClass = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "link.weir.dev"}, Spec: resourceapi.DeviceClassSpec{
	Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "weir.dev"`}}}}}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, classes: classes{linkClass}, cel: cel.NewCache(100, cel.Features{EnableConsumableCapacity: true}), taken: structured.NewConsumedCapacityCollection()}
}

// add starts the agent of a node with a configuration.
func (c *cluster) add(name, text string, links ...clusterLink) {
	c.t.Helper()
	parsed, err := config.Parse("", []byte(text))
	if err != nil {
		c.t.Fatal(err)
	}
	k := kernel.NewKernel("eth0", "eth0 ingress", "eth1", "eth1 ingress", "eth2", "eth2 ingress")
	log := &logtest.Buffer{}
	a, err := agent.New(agent.Options{Config: parsed, StateDir: c.t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil)),
		Devices: agent.Devices{Names: k.Devices, Open: func(l config.Link) (dataplane.Backend, error) { return k.Open(l.Name()) }}})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
	c.nodes = append(c.nodes, &clusterNode{name: name, agent: a, links: links})
}

// slice returns the slice that a node publishes now.
func (c *cluster) slice(n *clusterNode) *resourceapi.ResourceSlice {
	c.t.Helper()
	status, err := n.agent.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "00000-" + n.name}, Spec: resourceapi.ResourceSliceSpec{
		Driver: translate.Driver, NodeName: new(n.name), Pool: resourceapi.ResourcePool{Name: n.name, Generation: 1, ResourceSliceCount: 1},
		Devices: translate.Devices(translate.Inventory{Links: status.Links})}}
}

// allocate has the scheduler's code allocate a claim on a node; nil = it does not fit there.
func (c *cluster) allocate(n *clusterNode, claim *resourceapi.ResourceClaim) *resourceapi.AllocationResult {
	c.t.Helper()
	features := structured.Features{ConsumableCapacity: true, DeviceTaints: true, PrioritizedList: true, AdminAccess: true, PartitionableDevices: true}
	allocator, err := structured.NewAllocator(c.t.Context(), features, structured.AllocatedState{AggregatedCapacity: c.taken.Clone()},
		c.classes, []*resourceapi.ResourceSlice{c.slice(n)}, c.cel)
	if err != nil {
		c.t.Fatal(err)
	}
	results, err := allocator.Allocate(c.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, []*resourceapi.ResourceClaim{claim})
	if err != nil {
		c.t.Fatalf("%s: %v", claim.Name, err)
	}
	if len(results) == 0 {
		return nil
	}
	return &results[0]
}

// consume counts an allocation, or takes it back.
func (c *cluster) consume(result *resourceapi.AllocationResult, back bool) {
	for _, r := range result.Devices.Results {
		consumed := structured.NewDeviceConsumedCapacity(structured.MakeDeviceID(r.Driver, r.Pool, r.Device), r.ConsumedCapacity)
		if back {
			c.taken.Remove(consumed)
		} else {
			c.taken.Insert(consumed)
		}
	}
}

// request is one request of a drawn claim, and what it takes after rounding.
type request struct {
	amounts  map[resourceapi.QualifiedName]int64
	selected string // the link that it must be on, "" = any
}

func (r request) rounded(name resourceapi.QualifiedName) int64 {
	return (r.amounts[name] + 999) / 1000 * 1000
}

// claimOf makes the claim of a pod out of requests.
func claimOf(pod string, requests []request) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: pod, UID: types.UID("uid-" + pod)}}
	for i, r := range requests {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: linkClass.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}}
		for name, amount := range r.amounts {
			exactly.Capacity.Requests[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
		if r.selected != "" {
			exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf(`device.attributes["weir.dev"].interface == %q`, r.selected)}}}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: exactly})
	}
	claim.Status.ReservedFor = reservedFor([]string{pod})
	return claim
}

// fits is the oracle: whether the requests have room on a node, whichever links they take.
func (n *clusterNode) fits(requests []request) bool {
	if len(requests) == 0 {
		return true
	}
	r := requests[0]
	for _, l := range n.links {
		room := r.selected == "" || r.selected == l.device
		for name := range r.amounts {
			free, steered := l.free[name]
			room = room && steered && r.rounded(name) <= free
		}
		if !room {
			continue
		}
		n.take(l.device, r, 1)
		rest := n.fits(requests[1:])
		n.take(l.device, r, -1)
		if rest {
			return true
		}
	}
	return false
}

func (n *clusterNode) take(device string, r request, sign int64) {
	i := slices.IndexFunc(n.links, func(l clusterLink) bool { return l.device == device })
	for name := range r.amounts {
		n.links[i].free[name] -= sign * r.rounded(name)
	}
}

// TestSchedulersCode: claims drawn at random on ten nodes of different links. No claim is pending
// that would fit on any node, the agent of the node admits each that was allocated, and holds in
// sum what was allocated, which is never above what mins may take.
func TestSchedulersCode(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); drawCluster(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func drawCluster(t *testing.T, r *rand.Rand) {
	c := newCluster(t)
	for i := range 10 {
		text := "workloads: {host: {min: 1mbit}}\nlinks:\n"
		var links []clusterLink
		for l := range 1 + r.IntN(3) {
			device, mbit, share := fmt.Sprintf("eth%d", l), int64(10+r.IntN(300)), []int64{100, 90, 50}[r.IntN(3)]
			free := map[resourceapi.QualifiedName]int64{translate.Egress: mbit*share*1e4 - 1e6}
			line := fmt.Sprintf("- {device: %s, egress: %dmbit, reservable: %d%%", device, mbit, share)
			if r.IntN(2) == 0 {
				line += fmt.Sprintf(", ingress: %dmbit", 2*mbit)
				free[translate.Ingress] = 2 * mbit * share * 1e4
			}
			text += line + "}\n"
			links = append(links, clusterLink{device, free})
		}
		c.add(fmt.Sprintf("n%d", i), text, links...)
	}
	type placed struct {
		node     *clusterNode
		claim    *resourceapi.ResourceClaim
		requests []request
	}
	var running []placed
	pending, started := 0, 0
	for i := range 200 {
		if len(running) > 0 && r.IntN(5) == 0 { // a pod ends
			at := r.IntN(len(running))
			p := running[at]
			running = slices.Delete(running, at, at+1)
			if _, err := p.node.agent.Release(t.Context(), string(p.claim.UID), false); err != nil {
				t.Fatal(err)
			}
			c.consume(p.claim.Status.Allocation, true)
			p.node.give(p.claim, -1)
		}
		pod, requests := fmt.Sprintf("pod%d", i), drawRequests(r)
		claim := claimOf(pod, requests)
		order := r.Perm(len(c.nodes))
		at := slices.IndexFunc(order, func(n int) bool {
			claim.Status.Allocation = c.allocate(c.nodes[n], claim)
			if fits := c.nodes[n].fits(requests); fits != (claim.Status.Allocation != nil) {
				t.Errorf("%s on %s: fits %v, allocated %v; %+v of %+v", pod, c.nodes[n].name, fits, !fits, requests, c.nodes[n].links)
			}
			return claim.Status.Allocation != nil
		})
		if at < 0 {
			pending++
			continue
		}
		n := c.nodes[order[at]]
		c.consume(claim.Status.Allocation, false)
		n.give(claim, 1)
		status, err := n.agent.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		asked, err := translate.Ask(claim, n.name, status.Links)
		if err != nil {
			t.Fatalf("%s: %v", pod, err)
		}
		if _, err := n.agent.Allocate(t.Context(), string(claim.UID), asked.AllocationRequest, false); err != nil {
			t.Errorf("%s was allocated on %s, and its agent refuses it: %v", pod, n.name, err)
		}
		running = append(running, placed{n, claim, requests})
		started++
	}
	for _, n := range c.nodes {
		c.compare(n)
	}
	if pending < 10 || started < 50 {
		t.Errorf("%d pods pending, %d started: the draw shows too little", pending, started)
	}
	t.Logf("%d pods started, %d pending", started, pending)
}

func drawRequests(r *rand.Rand) []request {
	var list []request
	for range 1 + r.IntN(2) {
		one := request{amounts: map[resourceapi.QualifiedName]int64{translate.Egress: 1000 + r.Int64N(60e6)}}
		if r.IntN(4) == 0 {
			one.amounts[translate.Ingress] = 1000 + r.Int64N(60e6)
		}
		if r.IntN(4) == 0 {
			one.selected = fmt.Sprintf("eth%d", r.IntN(3))
		}
		list = append(list, one)
	}
	return list
}

// give takes what a claim was allocated off what the oracle has, or puts it back.
func (n *clusterNode) give(claim *resourceapi.ResourceClaim, sign int64) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		amounts := map[resourceapi.QualifiedName]int64{}
		for name, q := range result.ConsumedCapacity {
			if q.Value() > 0 { // a link consumes 0 of what was not asked for
				amounts[name] = q.Value()
			}
		}
		n.take(result.Device, request{amounts: amounts}, sign)
	}
}

// compare holds a node's agent to the scheduler's sums.
func (c *cluster) compare(n *clusterNode) {
	c.t.Helper()
	status, err := n.agent.Status(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	held := map[string]uint64{}
	list, err := n.agent.Allocations(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, a := range list {
		for _, m := range a.Mins {
			if !m.Held {
				c.t.Errorf("%s: %s is not held on %s: %s", n.name, a.For, m.Device, m.Note)
			}
			held[api.LinkName(m.Device, m.Direction)] += m.MinBps
		}
	}
	for _, l := range status.Links {
		name := resourceapi.QualifiedName(translate.Egress)
		if l.Direction == "ingress" {
			name = translate.Ingress
		}
		var taken uint64
		if q := c.taken[structured.MakeDeviceID(translate.Driver, n.name, l.Device)][name]; q != nil {
			taken = uint64(q.Value())
		}
		if l.AllocatedBps != taken || held[api.LinkName(l.Device, l.Direction)] != taken {
			c.t.Errorf("%s %s %s: the scheduler has allocated %d, the agent holds %d", n.name, l.Device, l.Direction, taken, l.AllocatedBps)
		}
		if float64(l.ReservedBps) > l.Reservable*float64(l.CapacityBps) {
			c.t.Errorf("%s %s %s: mins of %d of %v of %d", n.name, l.Device, l.Direction, l.ReservedBps, l.Reservable, l.CapacityBps)
		}
	}
}
