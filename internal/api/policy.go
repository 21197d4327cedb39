// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	"weir/internal/core/policy"
)

// Policy is the policy of a workload. Its JSON has values as a user writes them:
// "20mbit", "25%", "" for none.
type Policy struct{ policy.Policy }

// PolicyOf returns a policy as it crosses the socket.
func PolicyOf(p policy.Policy) Policy { return Policy{p} }

// GroupPolicy is the policy of a group, which has fewer fields.
type GroupPolicy struct{ policy.Policy }

// MarshalJSON implements json.Marshaler.
func (p GroupPolicy) MarshalJSON() ([]byte, error) { return p.JSON(policy.OnGroup) }

// PolicyChange is a request to change a workload's policy.
type PolicyChange struct {
	policy.Change
	Options
}

// GroupChange is a request to make a group, or to change its policy.
type GroupChange struct{ PolicyChange }

// Options are the options of a change of a policy.
type Options struct {
	// AcceptGaps accepts settings that the link's backend does not hold on this kernel.
	AcceptGaps bool `json:"accept_gaps,omitempty" doc:"accept fields that the backend of a link does not hold on this kernel; without it, they are refused with status 409"`
	// Reset drops the fields set at run time; labels and configuration count again.
	Reset bool `json:"reset,omitempty" doc:"first drop all fields that were set at run time, and what was asked for; with asked the latter alone"`
	// Asked says that the change is what comes with the workload or group, and not what an
	// operator wants: it counts below weir.yaml and what operators set.
	Asked bool `json:"asked,omitempty" doc:"the fields come with the workload or group, such as a pod's annotations: they count only as far as weir.yaml and what was set at run time give as much; the rest is in cut"`
}

// Empty reports whether the change asks for nothing.
func (c PolicyChange) Empty() bool { return c.Change.Empty() && !c.Reset }

// MarshalJSON implements json.Marshaler.
func (c PolicyChange) MarshalJSON() ([]byte, error) {
	change, err := json.Marshal(c.Change)
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(c.Options)
	if err != nil {
		return nil, err
	}
	return joined(change, options), nil
}

// joined returns one JSON object with the members of two.
func joined(a, b []byte) []byte {
	switch {
	case string(a) == "{}":
		return b
	case string(b) == "{}":
		return a
	}
	return append(append(a[:len(a)-1:len(a)-1], ','), b[1:]...)
}

// UnmarshalJSON implements json.Unmarshaler. What it cannot read of the fields is an error
// of policy.Change.Readable.
func (c *PolicyChange) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &c.Options); err != nil {
		return err
	}
	return json.Unmarshal(text, &optioned{&c.Change})
}

// optioned is a change in an object that has options too.
type optioned struct{ change *policy.Change }

func (o *optioned) UnmarshalJSON(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, name := range optionNames() {
		delete(members, name)
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(rest, o.change)
}

// In returns the policy in one direction, "egress" or "ingress"; without a word about
// ingress the default.
func (p Policy) In(direction string) Policy { return Policy{p.Policy.In(policy.Direction(direction))} }

// LinkName returns the name of a device's direction as one line shows it: "eth0", "eth0
// ingress".
func LinkName(device, direction string) string {
	if direction == string(policy.Ingress) {
		return device + " " + direction
	}
	return device
}
