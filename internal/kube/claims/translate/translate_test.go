// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"weir/internal/api"
	"weir/internal/core/bound"
	"weir/internal/core/refusal"
)

// link returns a link as the agent shows it; rates are in Mbit/s.
func link(device, direction string, capacity, reserved, allocated uint64) api.LinkStatus {
	return api.LinkStatus{Device: device, Direction: direction, Backend: "bpf", CapacityBps: capacity * 1e6, Reservable: 1,
		ReservedBps: reserved * 1e6, AllocatedBps: allocated * 1e6, FreeBps: (capacity - reserved) * 1e6}
}

// text writes devices down, a line for each: "eth0 bandwidth=80M taints=[] backend=bpf ...".
func text(devices []resourceapi.Device) string {
	var b strings.Builder
	for _, d := range devices {
		var parts []string
		for name, c := range d.Capacity {
			parts = append(parts, fmt.Sprintf("%s=%s", name, c.Value.String()))
		}
		for name, a := range d.Attributes {
			if a.IntValue != nil {
				parts = append(parts, fmt.Sprintf("%s=%d", name, *a.IntValue))
			} else {
				parts = append(parts, fmt.Sprintf("%s=%s", name, *a.StringValue))
			}
		}
		for _, t := range d.Taints {
			parts = append(parts, fmt.Sprintf("taint=%s:%s", t.Key, t.Effect))
		}
		slices.Sort(parts)
		fmt.Fprintf(&b, "%s %s\n", d.Name, strings.Join(parts, " "))
	}
	return b.String()
}

func TestDevices(t *testing.T) {
	// Of eth0, others have a min of 20 Mbit/s and claims one of 30; its ingress is free.
	links := []api.LinkStatus{link("eth0", "egress", 100, 50, 30), link("eth0", "ingress", 40, 0, 0), link("eth1.7", "egress", 10, 10, 0)}
	node := Inventory{Links: links, Zone: "a", Ports: map[string]Port{"eth0": {Speed: 1000, Subnet: "10.0.0.0/24"}}}
	const want = `eth0 backend=bpf bandwidth=80M ingressBandwidth=40M interface=eth0 speed=1000 subnet=10.0.0.0/24 zone=a
eth1-7-8bc29b84 backend=bpf bandwidth=0 interface=eth1.7 zone=a
`
	if got := text(Devices(node)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	again := node
	again.Links = slices.Clone(links)
	slices.Reverse(again.Links)
	if !reflect.DeepEqual(Devices(node), Devices(again)) {
		t.Error("the order of the links makes other devices")
	}
	for _, tt := range []struct {
		what string
		edit func(*Inventory)
		want string
	}{
		{"the agent is gone", func(n *Inventory) { n.Gone = true }, "eth0 taint=weir.dev/agent:NoSchedule; eth1-7-8bc29b84 taint=weir.dev/agent:NoSchedule"},
		{"both directions are lost", func(n *Inventory) { n.Links[0].Error, n.Links[1].Backend = "no such device", "none" }, "eth0 taint=weir.dev/link:NoSchedule; eth1-7-8bc29b84"},
		{"a taint that the API server drops", func(n *Inventory) { n.Links[0].Error, n.WithoutTaints = "no such device", true }, "eth1-7-8bc29b84"},
		{"no link", func(n *Inventory) { n.Links = nil }, ""},
	} {
		n := node
		n.Links = slices.Clone(links)
		tt.edit(&n)
		var got []string
		for line := range strings.Lines(text(Devices(n))) {
			words := strings.Fields(line)
			got = append(got, strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, "=") && !strings.HasPrefix(w, "taint=") }), " "))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, strings.Join(got, "; "), tt.want)
		}
	}
}

// TestDevicesAreValid: whatever the links are, the API server takes the slices: names are labels
// and differ, a range has room for a step, a slice is not too large.
func TestDevicesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Inventory{Gone: rapid.Bool().Draw(t, "gone"), Zone: rapid.StringMatching(`[a-z]{0,70}`).Draw(t, "zone")}
		devices := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9_.@-]{1,15}`), 0, 150, rapid.ID[string]).Draw(t, "devices")
		for _, d := range devices {
			n.Links = append(n.Links, api.LinkStatus{Device: d, Direction: "egress", Backend: "tc", FreeBps: rapid.Uint64().Draw(t, "free")})
		}
		names := map[string]bool{}
		for _, portion := range Slices(Devices(n)) {
			if len(portion) > PerSlice {
				t.Errorf("a slice of %d devices", len(portion))
			}
			for _, d := range portion {
				if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 || names[d.Name] {
					t.Errorf("name %q: %v, or there twice", d.Name, errs)
				}
				names[d.Name] = true
				c := d.Capacity[Egress]
				if r := c.RequestPolicy; r != nil && r.ValidRange.Step.Cmp(c.Value) > 0 || c.Value.Sign() < 0 {
					t.Errorf("%s has %s with %+v", d.Name, c.Value.String(), r)
				}
				for name := range d.Attributes {
					if v := d.Attributes[name].StringValue; v != nil && len(*v) > 64 {
						t.Errorf("attribute %s has %d bytes", name, len(*v))
					}
				}
			}
		}
		if len(names) != len(devices) {
			t.Errorf("%d devices of %d links", len(names), len(devices))
		}
	})
}

// claimOf returns an allocated claim shop/uplink for pods of its namespace, whose results are
// "eth0 bandwidth=60M ingressBandwidth=1M".
func claimOf(pods []string, results ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "uplink", UID: "u1"}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for i, line := range results {
		words := strings.Fields(line)
		r := resourceapi.DeviceRequestAllocationResult{Request: fmt.Sprintf("r%d", i), Driver: Driver, Pool: "n1", Device: words[0],
			ShareID: new(types.UID(fmt.Sprintf("share%d", i))), ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{}}
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			r.ConsumedCapacity[resourceapi.QualifiedName(name)] = resource.MustParse(value)
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID("uid-" + p)})
	}
	return c
}

var fourLinks = []api.LinkStatus{link("eth0", "egress", 100, 0, 0), link("eth0", "ingress", 100, 0, 0), link("eth1", "egress", 10, 0, 0), link("Eth2", "egress", 10, 0, 0)}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		what    string
		pods    []string
		results []string
		want    string // mins; notes
	}{
		{"one", []string{"web"}, []string{"eth0 bandwidth=60M"}, "eth0 egress 60000000"},
		{"qualified", []string{"web"}, []string{"eth0 weir.dev/bandwidth=60M"}, "eth0 egress 60000000"},
		{"two requests of a link add up", []string{"web"}, []string{"eth0 bandwidth=60M", "eth0 bandwidth=5k"}, "eth0 egress 60005000"},
		{"links and directions", []string{"web"}, []string{"eth1 bandwidth=1M", "eth0 ingressBandwidth=2M bandwidth=3M"}, "eth0 egress 3000000, eth0 ingress 2000000, eth1 egress 1000000"},
		{"a name that is no label", []string{"web"}, []string{DeviceName("Eth2") + " bandwidth=1M"}, "Eth2 egress 1000000"},
		{"nothing", []string{"web"}, []string{"eth0 bandwidth=0 ingressBandwidth=0"}, "; request r0 asks for no bandwidth; write capacity: {requests: {bandwidth: 10M}}"},
		{"no word", []string{"web"}, []string{"eth0"}, "; request r0 asks for no bandwidth; write capacity: {requests: {bandwidth: 10M}}"},
	} {
		asked, err := Ask(claimOf(tt.pods, tt.results...), "n1", fourLinks)
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		var mins []string
		for _, m := range asked.Mins {
			mins = append(mins, fmt.Sprintf("%s %s %d", m.Device, m.Direction, m.MinBps))
		}
		if got := strings.Join(append([]string{strings.Join(mins, ", ")}, asked.Notes...), "; "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
		if asked.For != "shop/uplink" || !slices.Equal(asked.Pods, []string{"shop/web"}) || len(asked.Devices) != len(tt.results) {
			t.Errorf("%s: %+v", tt.what, asked)
		}
	}
	shared, err := Ask(claimOf([]string{"b", "a", "b"}, "eth0 bandwidth=1M"), "n1", fourLinks)
	if err != nil || !slices.Equal(shared.Pods, []string{"shop/a", "shop/b"}) {
		t.Errorf("shared: %v, %v", shared.Pods, err)
	}
}

// TestAskRefuses: a claim that cannot be asked for says which field, which value, what to do.
func TestAskRefuses(t *testing.T) {
	const at = "status.allocation.devices.results[0]"
	for _, tt := range []struct {
		what, result string
		edit         func(*resourceapi.ResourceClaim)
		kind         refusal.Kind
		field, value string
		text         string
	}{
		{"negative", "eth0 bandwidth=-5M", nil, refusal.Invalid, at + ".consumedCapacity.bandwidth", "-5M", "is no rate from 1 kbit/s to 1000 Tbit/s; ask for bits per second"},
		{"below the smallest", "eth0 bandwidth=999", nil, refusal.Invalid, at + ".consumedCapacity.bandwidth", "999", "is no rate"},
		{"thousandths", "eth0 bandwidth=500m", nil, refusal.Invalid, at + ".consumedCapacity.bandwidth", "500m", "is no rate"},
		{"above all links", "eth0 bandwidth=2P", nil, refusal.Invalid, at + ".consumedCapacity.bandwidth", "2P", "is no rate"},
		{"a capacity that links have not", "eth0 memory=1G", nil, refusal.Invalid, at + ".consumedCapacity.memory", "1G", "ask for bandwidth or ingressBandwidth"},
		{"a direction that is not steered", "eth1 ingressBandwidth=1M", nil, refusal.Unknown, at + ".consumedCapacity.ingressBandwidth", "1M", "the ingress of eth1 is not steered"},
		{"an unknown link", "eth9 bandwidth=1M", nil, refusal.Unknown, at + ".device", "eth9", "the node has Eth2, eth0, eth1; delete the pod"},
		{"another node's", "eth0 bandwidth=1M", func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "n2" }, refusal.Invalid, "status.allocation.devices", "", "in pool n1"},
		{"not allocated", "eth0 bandwidth=1M", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, refusal.Invalid, "status.allocation", "", "not allocated"},
		{"a claim longer than the API server takes one", "eth0 bandwidth=1M", func(c *resourceapi.ResourceClaim) {
			c.Annotations = map[string]string{"a": strings.Repeat("x", bound.Claim)}
		}, refusal.Invalid, "spec", "", fmt.Sprintf("and %d are the most", bound.Claim)},
		{"for a pod group", "eth0 bandwidth=1M", func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor[0] = resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g"}
		}, refusal.Invalid, "status.reservedFor", "podgroups/g", "resourceClaimTemplateName"},
	} {
		c := claimOf([]string{"web"}, tt.result)
		if tt.edit != nil {
			tt.edit(c)
		}
		_, err := Ask(c, "n1", fourLinks)
		e := refusal.Of(err)
		if e == nil || e.Kind != tt.kind || e.Field != tt.field || e.Value != tt.value || e.Remedy == "" || !strings.Contains(e.Error(), tt.text) {
			t.Errorf("%s: %+v", tt.what, e)
		}
	}
}

// TestAskNotes: faults that do not keep the pod from its min are told, and the min holds.
func TestAskNotes(t *testing.T) {
	c := claimOf([]string{"web"}, "eth0 bandwidth=1M", "eth1 bandwidth=2M")
	c.Status.Allocation.Devices.Results[1].AdminAccess = new(true)
	opaque := resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: Driver, Parameters: runtime.RawExtension{Raw: []byte(`{"weight":3}`)}}}
	c.Status.Allocation.Devices.Config = []resourceapi.DeviceAllocationConfiguration{{DeviceConfiguration: opaque}, {DeviceConfiguration: opaque}}
	asked, err := Ask(c, "n1", fourLinks)
	if err != nil || len(asked.Mins) != 1 || asked.Mins[0].MinBps != 1e6 || len(asked.Notes) != 2 ||
		!strings.Contains(asked.Notes[0], "adminAccess gives no min") || !strings.Contains(asked.Notes[1], "takes no parameters") {
		t.Errorf("%+v, %v", asked, err)
	}
}

// TestAskBelowNothing: the API server takes a request of a negative capacity, and the scheduler
// allocates 0, so that only the claim's spec has what was asked.
func TestAskBelowNothing(t *testing.T) {
	c := claimOf([]string{"web"}, "eth0 bandwidth=0", "eth1 bandwidth=0")
	c.Status.Allocation.Devices.Results[1].Request = "r1/big"
	below := resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{Egress: resource.MustParse("-5M")}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "r0", Exactly: &resourceapi.ExactDeviceRequest{Capacity: &below}},
		{Name: "r1", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "small"}, {Name: "big", Capacity: &below}}},
	}
	asked, err := Ask(c, "n1", fourLinks)
	want := []string{
		"request r0 asks for bandwidth -5M, which is no rate; write capacity: {requests: {bandwidth: 10M}}",
		"request r1/big asks for bandwidth -5M, which is no rate; write capacity: {requests: {bandwidth: 10M}}"}
	if err != nil || !slices.Equal(asked.Notes, want) || len(asked.Mins) != 0 {
		t.Errorf("%q, mins %v, %v", asked.Notes, asked.Mins, err)
	}
}

func TestShareable(t *testing.T) {
	c := claimOf(nil, "eth0")
	if !Shareable(c) {
		t.Error("a claim that a user made")
	}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", Controller: new(true)}}
	if Shareable(c) {
		t.Error("a claim of a template")
	}
}

func TestStatus(t *testing.T) {
	asked, err := Ask(claimOf([]string{"web"}, "eth0 bandwidth=60M", "eth0"), "n1", fourLinks)
	if err != nil {
		t.Fatal(err)
	}
	held := &api.Allocation{Name: "u1", For: "shop/uplink", Pods: []string{"shop/web"}, Class: 7,
		Mins: []api.AllocatedMin{{LinkMin: asked.Mins[0], Held: true}}}
	lost := &api.Allocation{Name: "u1", Pods: []string{"shop/web"}, Mins: []api.AllocatedMin{{LinkMin: asked.Mins[0], Note: "link eth0 is not steered"}}}
	then, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	first := Status(asked, Heard{Allocation: held}, nil, then)
	const note = "; request r1 asks for no bandwidth; write capacity: {requests: {bandwidth: 10M}}"
	for _, tt := range []struct {
		what    string
		heard   Heard
		status  metav1.ConditionStatus
		reason  string
		message string
		since   metav1.Time
	}{
		{"held", Heard{Allocation: held}, "True", ReasonHeld, "60 Mbit/s of eth0 held", then},
		{"lost", Heard{Allocation: lost}, "False", ReasonNotHeld, "link eth0 is not steered", now},
		{"refused", Heard{Allocation: held, Refused: "link eth0 holds no groups"}, "False", ReasonNotHeld, "link eth0 holds no groups", now},
		{"the agent has lost it", Heard{}, "False", ReasonNotHeld, "the agent has not been asked yet", now},
		{"gone", Heard{Allocation: held, Gone: true}, "Unknown", ReasonGone, "60 Mbit/s of eth0: the agent does not answer; what was held before, the kernel holds on", now},
	} {
		got := Status(asked, tt.heard, first, now)
		if len(got) != 2 {
			t.Fatalf("%s: %+v", tt.what, got)
		}
		c := got[0].Conditions[0]
		if c.Type != "Ready" || c.Status != tt.status || c.Reason != tt.reason || c.Message != tt.message+note || !c.LastTransitionTime.Equal(&tt.since) {
			t.Errorf("%s: %+v", tt.what, c)
		}
		if none := got[1].Conditions[0]; none.Status != "True" || none.Reason != ReasonNone {
			t.Errorf("%s: without a min: %+v", tt.what, none)
		}
		var data Data
		if err := json.Unmarshal(got[0].Data.Raw, &data); err != nil || data.Link != "eth0" || data.Held != (tt.status == "True") || data.Mins[0].MinBps != 60e6 {
			t.Errorf("%s: %s, %v", tt.what, got[0].Data.Raw, err)
		}
		if got[0].NetworkData.InterfaceName != "eth0" || *got[0].ShareID != "share0" {
			t.Errorf("%s: %+v", tt.what, got[0])
		}
	}
}

// TestMerge: the same status again changes nothing, in whatever order its JSON comes back, and
// devices of other drivers stay.
func TestMerge(t *testing.T) {
	asked, _ := Ask(claimOf([]string{"web"}, "eth0 bandwidth=60M"), "n1", fourLinks)
	own := Status(asked, Heard{}, nil, metav1.NewTime(time.Unix(1, 0)))
	other := resourceapi.AllocatedDeviceStatus{Driver: "gpu.example.com", Pool: "n1", Device: "eth0"}
	merged, changed := Merge([]resourceapi.AllocatedDeviceStatus{other}, own, "n1")
	if !changed || len(merged) != 2 || merged[0].Driver != other.Driver {
		t.Errorf("%v %+v", changed, merged)
	}
	var value any
	if err := json.Unmarshal(merged[1].Data.Raw, &value); err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	merged[1].Data = &runtime.RawExtension{Raw: raw}
	later := Status(asked, Heard{}, merged, metav1.NewTime(time.Unix(9, 0)))
	if _, changed := Merge(merged, later, "n1"); changed {
		t.Error("nothing changed, and it is written again")
	}
	if _, changed := Merge(merged, Status(asked, Heard{Gone: true}, merged, metav1.NewTime(time.Unix(9, 0))), "n1"); !changed {
		t.Error("a change is not written")
	}
	if m, changed := Merge(merged, nil, "n1"); !changed || len(m) != 1 {
		t.Errorf("taken away: %+v", m)
	}
}
