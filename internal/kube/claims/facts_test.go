// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package claims

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"weir/internal/core/refusal"
	"weir/internal/kube/claims/translate"
)

// TestAdmitsWhatWasAllocated holds agents to what the scheduler of a real cluster has decided,
// which scripts/test-kubernetes writes as lists of objects into the folder WEIR_FACTS. The agent of
// each node, over a data plane without a kernel, offers the same capacity as the node's slice; it
// admits each claim that was allocated there, holds their sum, and has no room for any claim that
// waits.
func TestAdmitsWhatWasAllocated(t *testing.T) {
	var list struct {
		slices resourceapi.ResourceSliceList
		claims resourceapi.ResourceClaimList
	}
	for name, into := range map[string]any{"slices": &list.slices, "claims": &list.claims} {
		text, err := os.ReadFile(filepath.Join(os.Getenv("WEIR_FACTS"), name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t)
	allocated := map[string][]*resourceapi.ResourceClaim{}
	var waiting []*resourceapi.ResourceClaim
	for i := range list.claims.Items {
		claim := &list.claims.Items[i]
		switch a := claim.Status.Allocation; {
		case a != nil:
			node := a.Devices.Results[0].Pool
			allocated[node] = append(allocated[node], claim)
		case claim.DeletionTimestamp == nil:
			waiting = append(waiting, claim)
		}
	}
	admitted, refused := 0, 0
	for i := range list.slices.Items {
		s := &list.slices.Items[i]
		node := *s.Spec.NodeName
		bandwidth := s.Spec.Devices[0].Capacity[translate.Egress].Value
		c.add(node, "links: [{device: "+s.Spec.Devices[0].Name+", egress: "+bandwidth.AsDec().String()+"bit, reservable: 100%}]")
		n := c.nodes[len(c.nodes)-1]
		offered := c.slice(n).Spec.Devices[0].Capacity[translate.Egress].Value
		if offered.Cmp(bandwidth) != 0 {
			t.Fatalf("%s: the agent offers %s, the slice %s", node, offered.String(), bandwidth.String())
		}
		for _, claim := range allocated[node] {
			if err := admit(t, n, claim); err != nil {
				t.Errorf("%s was allocated on %s, and its agent refuses it: %v", claim.Name, node, err)
			}
			c.consume(claim.Status.Allocation, false)
			admitted++
		}
		c.compare(n)
		for _, claim := range waiting {
			fake := claim.DeepCopy()
			fake.Status.ReservedFor = reservedFor([]string{"waits"})
			request := claim.Spec.Devices.Requests[0]
			consumed := maps.Clone(request.Exactly.Capacity.Requests)
			fake.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: request.Name, Driver: translate.Driver, Pool: node, Device: s.Spec.Devices[0].Name, ConsumedCapacity: consumed}}}}
			if err := admit(t, n, fake); !refusal.Is(err, refusal.NoRoom) {
				t.Errorf("%s waits, and the agent of %s would admit it: %v", claim.Name, node, err)
			}
			refused++
		}
	}
	for node := range allocated {
		if !slices.ContainsFunc(c.nodes, func(n *clusterNode) bool { return n.name == node }) {
			t.Errorf("claims are allocated on %s, which has no slice", node)
		}
	}
	if admitted < 10 || refused < 10 {
		t.Errorf("%d admitted, %d refused: that shows too little", admitted, refused)
	}
	t.Logf("the agents of %d nodes admit all %d claims that were allocated, and none of %d that wait", len(c.nodes), admitted, len(waiting))
}

// admit asks an agent for what a claim was allocated.
func admit(t *testing.T, n *clusterNode, claim *resourceapi.ResourceClaim) error {
	t.Helper()
	status, err := n.agent.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := translate.Ask(claim, n.name, status.Links)
	if err != nil {
		return err
	}
	_, err = n.agent.Allocate(t.Context(), string(claim.UID), asked.AllocationRequest, false)
	return err
}
