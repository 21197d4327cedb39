// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"weir/internal/api"
	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// Asked is what an allocated claim asks of the agent.
type Asked struct {
	api.AllocationRequest // without Mins if the claim asks for no bandwidth
	Devices               []Share
	// Notes are faults of the claim with which its pods run all the same.
	Notes []string
}

// Share is what one request of a claim was allocated of one device.
type Share struct {
	resourceapi.DeviceRequestAllocationResult
	Link string        // the network device
	Mins []api.LinkMin // its mins there, without those of 0
}

// Ask returns what a claim asks of the agent on the node with a pool of devices, whose links are
// given. The claim is refused as a whole if one of its mins cannot be asked for; the error is a
// *refusal.Error.
func Ask(claim *resourceapi.ResourceClaim, pool string, links []api.LinkStatus) (Asked, error) {
	asked := Asked{AllocationRequest: api.AllocationRequest{For: claim.Namespace + "/" + claim.Name}}
	if size := claim.Size(); size > bound.Claim {
		return asked, &refusal.Error{Kind: refusal.Invalid, Field: "spec", Msg: fmt.Sprintf("a claim of %d bytes, and %d are the most", size, bound.Claim), Remedy: "give it fewer parameters"}
	}
	if claim.Status.Allocation == nil {
		return asked, &refusal.Error{Kind: refusal.Invalid, Field: "status.allocation", Msg: "the claim is not allocated", Remedy: "the scheduler allocates it"}
	}
	if parts := partsOf(claim); parts > mostParts {
		return asked, &refusal.Error{Kind: refusal.Invalid, Field: "spec", Msg: fmt.Sprintf("a claim of %d requests, results and pods, and %d are the most", parts, mostParts), Remedy: "give it fewer requests"}
	}
	var err error
	if asked.Pods, err = pods(claim); err != nil {
		return asked, err
	}
	sums := map[api.LinkMin]uint64{} // by device and direction
	for i, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != Driver || result.Pool != pool {
			continue
		}
		field := fmt.Sprintf("status.allocation.devices.results[%d]", i)
		share := Share{DeviceRequestAllocationResult: result, Link: linkNamed(result.Device, links)}
		if share.Link == "" {
			return asked, &refusal.Error{Kind: refusal.Unknown, Field: field + ".device", Value: result.Device, Msg: fmt.Sprintf("no link of this node is called %q", result.Device),
				Remedy: "the node has " + cmp.Or(strings.Join(names(links), ", "), "none") + "; delete the pod, so that its claim is allocated anew"}
		}
		if result.AdminAccess != nil && *result.AdminAccess {
			asked.Notes = append(asked.Notes, fmt.Sprintf("request %.130s: adminAccess gives no min; leave it out to get one", result.Request))
		} else if share.Mins, err = mins(result, share.Link, field, links); err != nil {
			return asked, err
		}
		for _, m := range share.Mins {
			sums[api.LinkMin{Device: m.Device, Direction: m.Direction}] += m.MinBps
		}
		if len(share.Mins) == 0 && result.AdminAccess == nil {
			asked.Notes = append(asked.Notes, fmt.Sprintf("request %.130s asks for %s; write capacity: {requests: {%s: 10M}}", result.Request, noMin(claim, result.Request), Egress))
		}
		asked.Devices = append(asked.Devices, share)
	}
	if len(asked.Devices) == 0 {
		return asked, &refusal.Error{Kind: refusal.Invalid, Field: "status.allocation.devices", Msg: fmt.Sprintf("no device of driver %s in pool %s", Driver, pool),
			Remedy: "delete the pod, so that its claim is allocated anew"}
	}
	for _, c := range claim.Status.Allocation.Devices.Config {
		if c.Opaque != nil && c.Opaque.Driver == Driver {
			asked.Notes = append(asked.Notes, "config: driver "+Driver+" takes no parameters; weights and maxes are annotations of the pod")
			break
		}
	}
	for at, sum := range sums {
		at.MinBps = sum
		asked.Mins = append(asked.Mins, at)
	}
	slices.SortFunc(asked.Mins, func(x, y api.LinkMin) int {
		return cmp.Or(cmp.Compare(x.Device, y.Device), cmp.Compare(x.Direction, y.Direction))
	})
	return asked, nil
}

// mostParts bounds the requests of a claim with their alternatives, the results and the pods. The
// API server takes 32 requests with 8 alternatives each, 32 results and 256 pods. Each result
// without a min is looked for among the requests, and each device's status names the pods.
const mostParts = 640

func partsOf(claim *resourceapi.ResourceClaim) int {
	parts := len(claim.Spec.Devices.Requests) + len(claim.Status.Allocation.Devices.Results) + len(claim.Status.ReservedFor)
	for _, r := range claim.Spec.Devices.Requests {
		parts += len(r.FirstAvailable)
	}
	return parts
}

// noMin says what a request without a min asks for. The API server takes a negative capacity,
// and the scheduler makes 0 of it, by the range that the link allows.
func noMin(claim *resourceapi.ResourceClaim, request string) string {
	wanted := capacities(claim, request)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if amount := wanted[name]; amount.Sign() < 0 {
			return fmt.Sprintf("%s %s, which is no rate", name, amount.String())
		}
	}
	return "no bandwidth"
}

// capacities returns those that a request asks for. An alternative's name is request/alternative.
func capacities(claim *resourceapi.ResourceClaim, request string) map[resourceapi.QualifiedName]resource.Quantity {
	name, alternative, _ := strings.Cut(request, "/")
	for _, r := range claim.Spec.Devices.Requests {
		if e := r.Exactly; e != nil && r.Name == request && e.Capacity != nil {
			return e.Capacity.Requests
		}
		for _, s := range r.FirstAvailable {
			if r.Name == name && s.Name == alternative && s.Capacity != nil {
				return s.Capacity.Requests
			}
		}
	}
	return nil
}

// pods returns the pods that a claim is reserved for, as the agent calls them.
func pods(claim *resourceapi.ResourceClaim) ([]string, error) {
	list := []string{}
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup != "" || consumer.Resource != "pods" {
			return nil, &refusal.Error{Kind: refusal.Invalid, Field: "status.reservedFor", Value: consumer.Resource + "/" + consumer.Name,
				Msg: "is no pod, and a min belongs to pods", Remedy: "give each pod a claim of its own, by resourceClaimTemplateName"}
		}
		list = append(list, claim.Namespace+"/"+consumer.Name)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// mins returns what a result consumes of a link.
func mins(result resourceapi.DeviceRequestAllocationResult, link, field string, links []api.LinkStatus) ([]api.LinkMin, error) {
	var list []api.LinkMin
	for _, name := range slices.Sorted(maps.Keys(result.ConsumedCapacity)) {
		amount := result.ConsumedCapacity[name]
		at := field + ".consumedCapacity." + string(name)
		m := api.LinkMin{Device: link}
		switch strings.TrimPrefix(string(name), Driver+"/") {
		case Egress:
			m.Direction = string(policy.Egress)
		case Ingress:
			m.Direction = string(policy.Ingress)
		default:
			return nil, &refusal.Error{Kind: refusal.Invalid, Field: at, Value: amount.String(), Msg: "a link has no such capacity", Remedy: "ask for " + Egress + " or " + Ingress}
		}
		bps := amount.Value()
		switch {
		case bps == 0:
			continue
		case bps < step || bps > int64(policy.MaxRate):
			return nil, &refusal.Error{Kind: refusal.Invalid, Field: at, Value: amount.String(),
				Msg: fmt.Sprintf("is no rate from %s to %s", policy.MinRate, policy.MaxRate), Remedy: "ask for bits per second, such as 10M"}
		case !slices.ContainsFunc(links, func(l api.LinkStatus) bool { return l.Device == link && l.Direction == m.Direction }):
			return nil, &refusal.Error{Kind: refusal.Unknown, Field: at, Value: amount.String(), Msg: fmt.Sprintf("the %s of %s is not steered", m.Direction, link),
				Remedy: "steer it by links: in weir.yaml, or ask for " + Egress + " alone"}
		}
		m.MinBps = uint64(bps)
		list = append(list, m)
	}
	return list, nil
}

// names returns the network devices of links, sorted.
func names(links []api.LinkStatus) []string {
	var list []string
	for _, l := range links {
		list = append(list, l.Device)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Shareable reports whether other pods than those of status.reservedFor may come to use a claim:
// not one that was made for a pod from a template, which belongs to that pod alone.
func Shareable(claim *resourceapi.ResourceClaim) bool {
	return !slices.ContainsFunc(claim.OwnerReferences, func(o owner) bool {
		return o.APIVersion == "v1" && o.Kind == "Pod" && o.Controller != nil && *o.Controller
	})
}
