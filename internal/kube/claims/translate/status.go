// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"weir/internal/api"
	"weir/internal/core/policy"
)

type owner = metav1.OwnerReference

// ConditionReady is the type of the condition that says whether a device's mins are held: the one
// that Kubernetes names for a device which is as the claim wants it.
const ConditionReady = "Ready"

// The reasons of ConditionReady.
const (
	ReasonHeld    = "MinHeld"
	ReasonNone    = "NoMin"      // the claim asks for no bandwidth
	ReasonNotHeld = "MinNotHeld" // the message says why
	ReasonGone    = "AgentGone"  // the last known state may hold: the kernel needs no agent
)

// Data is the data of a device in a claim's status.
type Data struct {
	Link  string        `json:"link"`
	Class uint16        `json:"class,omitempty"` // number of the pod's or the group's class
	Pods  []string      `json:"pods"`            // several have the mins together
	Mins  []api.LinkMin `json:"mins"`
	Held  bool          `json:"held"`
	Notes []string      `json:"notes,omitempty"` // faults of the claim
}

// Heard is what the agent says of a claim.
type Heard struct {
	Allocation *api.Allocation // nil = the agent has none for the claim
	Gone       bool            // the agent does not answer
	Refused    string          // why its last answer to the claim was no, "" if it was not
}

// Status returns the devices of this driver for a claim's status. A condition keeps the time of
// its last change in the claim's present status; one that changes has the time now.
func Status(asked Asked, heard Heard, present []resourceapi.AllocatedDeviceStatus, now metav1.Time) []resourceapi.AllocatedDeviceStatus {
	var list []resourceapi.AllocatedDeviceStatus
	for _, share := range asked.Devices {
		data := Data{Link: share.Link, Pods: asked.Pods, Mins: share.Mins, Notes: asked.Notes}
		condition := heard.condition(share, asked.Notes)
		data.Held = condition.Status == metav1.ConditionTrue && len(share.Mins) > 0
		if heard.Allocation != nil {
			data.Class, data.Pods = heard.Allocation.Class, heard.Allocation.Pods
		}
		text, err := json.Marshal(data)
		if err != nil { // these types have no value that fails
			text = []byte("{}")
		}
		d := resourceapi.AllocatedDeviceStatus{Driver: share.Driver, Pool: share.Pool, Device: share.Device,
			Data: &runtime.RawExtension{Raw: text}, NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: share.Link}}
		if share.ShareID != nil {
			d.ShareID = new(string(*share.ShareID))
		}
		condition.LastTransitionTime = now
		if was := find(present, d); was != nil {
			for _, c := range was.Conditions {
				if c.Type == condition.Type && c.Status == condition.Status {
					condition.LastTransitionTime = c.LastTransitionTime
				}
			}
		}
		d.Conditions = []metav1.Condition{condition}
		list = append(list, d)
	}
	return list
}

// condition says whether the mins of a share are held.
func (h Heard) condition(share Share, notes []string) metav1.Condition {
	c := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonHeld}
	var said []string
	for _, m := range share.Mins {
		said = append(said, policy.Rate(m.MinBps).String()+" of "+api.LinkName(m.Device, m.Direction))
	}
	held := strings.Join(said, ", ")
	switch why := h.notHeld(share); {
	case len(share.Mins) == 0:
		c.Reason, c.Message = ReasonNone, "no min"
	case h.Gone:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, ReasonGone, held+": the agent does not answer; what was held before, the kernel holds on"
	case why != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, ReasonNotHeld, why
	default:
		c.Message = held + " held"
	}
	c.Message = strings.Join(append([]string{c.Message}, notes...), "; ")
	const most = 32768 // of the API
	c.Message = c.Message[:min(len(c.Message), most)]
	return c
}

// notHeld returns why a share is not held, "" if it is.
func (h Heard) notHeld(share Share) string {
	if h.Refused != "" {
		return h.Refused
	}
	if h.Allocation == nil {
		return "the agent has not been asked yet"
	}
	for _, m := range share.Mins {
		i := slices.IndexFunc(h.Allocation.Mins, func(a api.AllocatedMin) bool { return a.Device == m.Device && a.Direction == m.Direction })
		if i < 0 {
			return "the agent does not have its min on " + api.LinkName(m.Device, m.Direction)
		}
		if !h.Allocation.Mins[i].Held {
			return cmp.Or(h.Allocation.Mins[i].Note, "not held")
		}
	}
	return ""
}

// find returns the entry for the same share of the same device, nil if there is none.
func find(list []resourceapi.AllocatedDeviceStatus, d resourceapi.AllocatedDeviceStatus) *resourceapi.AllocatedDeviceStatus {
	i := slices.IndexFunc(list, func(e resourceapi.AllocatedDeviceStatus) bool {
		same := e.ShareID == nil && d.ShareID == nil || e.ShareID != nil && d.ShareID != nil && *e.ShareID == *d.ShareID
		return e.Driver == d.Driver && e.Pool == d.Pool && e.Device == d.Device && same
	})
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Merge returns the devices of a claim's status with those of this driver's pool put in place,
// and whether that changes something. The entries of other drivers stay.
func Merge(present, own []resourceapi.AllocatedDeviceStatus, pool string) (merged []resourceapi.AllocatedDeviceStatus, changed bool) {
	for _, d := range present {
		if d.Driver != Driver || d.Pool != pool {
			merged = append(merged, d)
		}
	}
	merged = append(merged, own...)
	if len(merged) != len(present) {
		return merged, true
	}
	for _, d := range own {
		if was := find(present, d); was == nil || !same(*was, d) {
			return merged, true
		}
	}
	return merged, false
}

// same reports whether two entries say the same; JSON may come back in another order.
func same(x, y resourceapi.AllocatedDeviceStatus) bool {
	return slices.EqualFunc(x.Conditions, y.Conditions, func(a, b metav1.Condition) bool {
		a.LastTransitionTime, a.ObservedGeneration = b.LastTransitionTime, b.ObservedGeneration
		return a == b
	}) && reflect.DeepEqual(plain(x.Data), plain(y.Data)) && reflect.DeepEqual(x.NetworkData, y.NetworkData)
}

// plain returns JSON as maps and lists.
func plain(raw *runtime.RawExtension) (value any) {
	if raw != nil {
		_ = json.Unmarshal(raw.Raw, &value) // what cannot be read is nil, which differs from all that this package writes
	}
	return value
}
