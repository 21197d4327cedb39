// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/kube/decide"
)

// The reasons of Events.
const (
	reasonInvalid = "InvalidAnnotation" // it says nothing that could be
	reasonRefused = "PolicyNotInForce"  // the agent refuses it
)

// have is what the agent has of pods.
type have struct {
	workloads map[string]api.Workload // by name
	groups    map[string]api.Group    // by name
}

// refused is what the agent did not grant of what follows from an object.
type refused struct {
	values map[string]string // as they were asked for, by field; "" is the whole
	errs   map[string]*refusal.Error
	at     time.Time
}

// pass makes the agent's workloads and groups those that should be. Where the agent does not
// answer, the next pass begins anew.
func (n *Node) pass(ctx context.Context) {
	if !n.listed {
		return
	}
	if err := n.reconcile(ctx); err != nil && ctx.Err() == nil {
		n.have = nil
		if !n.down {
			n.opts.Log.Warn("agent does not answer; pods stay as they are", "err", err)
		}
		n.down = true
		return
	}
	if n.down {
		n.opts.Log.Info("agent answers again")
	}
	n.down = false
}

// reconcile is one comparison. The error is one of reaching the agent, or of what it could not do.
func (n *Node) reconcile(ctx context.Context) error {
	if n.have == nil {
		if err := n.refresh(ctx); err != nil {
			return err
		}
	}
	d := decide.Decide(n.world())
	wanted := map[string]bool{}
	for _, w := range d.Workloads {
		wanted[w.Key()] = true
	}
	var failures failures
	freed := false
	for _, name := range slices.Sorted(maps.Keys(n.have.workloads)) {
		if wanted[name] {
			continue
		}
		if err := n.detach(ctx, name); failures.fatal(err) {
			return err
		}
		freed = true
	}
	n.forget(d, freed)
	for _, g := range d.Groups {
		if err := n.setGroup(ctx, g); failures.fatal(err) {
			return err
		}
	}
	for _, w := range d.Workloads {
		if err := n.attach(ctx, w); failures.fatal(err) {
			return err
		}
	}
	if !n.known {
		return failures.err
	}
	for _, name := range slices.Sorted(maps.Keys(n.have.groups)) {
		if !slices.ContainsFunc(d.Groups, func(g decide.Group) bool { return g.Name == name }) {
			if err := n.deleteGroup(ctx, name); failures.fatal(err) {
				return err
			}
		}
	}
	n.tellFaults(d)
	return failures.err
}

// failures are those of single objects: the agent answers and could not do what was asked. The
// others come first, and the pass fails at its end.
type failures struct{ err error }

// fatal reports whether an error ends the pass, and keeps one that does not.
func (f *failures) fatal(err error) bool {
	if err == nil || !refusal.Is(err, refusal.Failed) {
		return err != nil
	}
	f.err = errors.Join(f.err, err)
	return false
}

// refresh asks the agent what it has.
func (n *Node) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Times.Call)
	defer cancel()
	status, err := n.opts.Agent.Status(ctx)
	if err != nil {
		return err
	}
	workloads, err := n.opts.Agent.Workloads(ctx)
	if err != nil {
		return err
	}
	groups, err := n.opts.Agent.Groups(ctx)
	if err != nil {
		return err
	}
	h := &have{workloads: map[string]api.Workload{}, groups: map[string]api.Group{}}
	for _, w := range workloads {
		if w.Kind == workload.KindPod && w.ID != "" { // one without an id was not attached: a claim awaits it
			h.workloads[w.Name] = w
		}
	}
	for _, g := range groups {
		if strings.HasPrefix(g.Name, decide.GroupPrefix) {
			h.groups[g.Name] = g
		}
	}
	n.have, n.compared, n.started = h, time.Now(), status.Started
	return nil
}

// forget drops what was refused of objects that are gone, and what may be granted now: after
// another workload went, and after some time.
func (n *Node) forget(d decide.Wanted, freed bool) {
	there := map[string]bool{}
	for _, w := range d.Workloads {
		there[w.Key()] = true
	}
	for _, g := range d.Groups {
		there[g.Name] = true
	}
	for name, r := range n.refused {
		if !there[name] || freed || time.Since(r.at) >= n.opts.Times.Again {
			delete(n.refused, name)
		}
	}
}

func (n *Node) detach(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Times.Call)
	defer cancel()
	_, err := n.opts.Agent.Detach(ctx, name, false)
	if no := refusal.Of(err); err != nil && (no == nil || !answered(no.Kind)) {
		return err
	}
	if err != nil && !refusal.Is(err, refusal.Unknown) {
		n.opts.Log.Warn("pod cannot be detached", "pod", name, "err", err)
	}
	delete(n.have.workloads, name)
	return nil
}

func (n *Node) deleteGroup(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.opts.Times.Call)
	defer cancel()
	_, err := n.opts.Agent.DeleteGroup(ctx, name, false)
	if no := refusal.Of(err); err != nil && (no == nil || !answered(no.Kind)) {
		return err
	}
	if err != nil && !refusal.Is(err, refusal.Unknown) {
		n.opts.Log.Warn("group cannot be deleted", "group", name, "err", err)
	}
	delete(n.have.groups, name)
	return nil
}

// setGroup makes a group what it should be.
func (n *Node) setGroup(ctx context.Context, g decide.Group) error {
	was, exists := n.have.groups[g.Name]
	if exists && !n.known {
		return nil
	}
	ask := func(ctx context.Context, c policy.Change) error {
		change := api.GroupChange{PolicyChange: api.PolicyChange{Change: c, Options: api.Options{Asked: true, Reset: exists}}}
		result, err := n.opts.Agent.SetGroup(ctx, g.Name, change, false)
		if err == nil && result.Group != nil {
			n.have.groups[g.Name] = *result.Group
		}
		return err
	}
	same := func(c policy.Change) bool {
		return exists && maps.Equal(c.Texts(), was.Asked)
	}
	return n.grant(ctx, g.Name, g.Change, same, ask)
}

// attach makes a pod the workload that it should be.
func (n *Node) attach(ctx context.Context, w decide.Workload) error {
	key, place := w.Key(), w.Sandbox
	was, exists := n.have.workloads[key]
	change := w.Change
	if name := change.To().Group; name != "" {
		if _, made := n.have.groups[name]; !made {
			change = change.Without("group") // it was refused, which an Event says
		}
	}
	if !n.known && exists {
		if was.ID == place {
			return nil
		}
		if was.Origin["group"] == "asked" {
			change = change.Over(policy.ChangeTo(was.Policy.Policy, "group"))
		}
	}
	ask := func(ctx context.Context, c policy.Change) error {
		req := api.AttachRequest{Name: key, Pod: place, Netns: w.Netns, Cgroup: w.Cgroup, Weight: w.Weight,
			Policy: api.PolicyChange{Change: c, Options: api.Options{Asked: true}}}
		result, err := n.opts.Agent.Attach(ctx, req, false)
		if err == nil && result.Workload != nil {
			n.have.workloads[key] = *result.Workload
		}
		return err
	}
	same := func(c policy.Change) bool {
		return exists && was.ID == place && maps.Equal(c.Texts(), was.Asked) && sameWeight(w.Weight, was)
	}
	return n.grant(ctx, key, change, same, ask)
}

// sameWeight reports whether a pod has the weight of its class, where that counts.
func sameWeight(weight uint32, has api.Workload) bool {
	switch has.Origin["weight"] {
	case "found", "default":
		return has.Policy.Weight == max(weight, policy.Default().Weight)
	}
	return true
}

// grant asks the agent for a change of an object, unless it has what is asked for, without
// what it refuses. The error is one of reaching the agent.
func (n *Node) grant(ctx context.Context, name string, change policy.Change, same func(policy.Change) bool, ask func(context.Context, policy.Change) error) error {
	texts := change.Texts()
	before := n.refused[name]
	r := refused{values: map[string]string{}, errs: map[string]*refusal.Error{}, at: time.Now()}
	for field, value := range before.values {
		if text, given := texts[field]; field == "" || given && text == value {
			r.values[field], r.errs[field], r.at = value, before.errs[field], before.at
			change = change.Without(field)
		}
	}
	if _, whole := r.values[""]; !whole && !same(change) {
		if err := n.ask(ctx, change, &r, ask); err != nil {
			return err
		}
	}
	if delete(n.refused, name); len(r.values) > 0 {
		n.refused[name] = r
	}
	return nil
}

// ask asks for a change, and again without the fields that are refused, which it notes in r.
func (n *Node) ask(ctx context.Context, change policy.Change, r *refused, ask func(context.Context, policy.Change) error) error {
	for {
		err := within(ctx, n.opts.Times.Call, func(ctx context.Context) error { return ask(ctx, change) })
		if err == nil {
			return nil
		}
		no := refusal.Of(err)
		if no == nil || !answered(no.Kind) {
			return err
		}
		fields := blamed(no.Field, change)
		if len(fields) == 0 {
			r.values[""], r.errs[""] = "", no
			return nil
		}
		for _, field := range fields {
			r.values[field], r.errs[field] = change.Texts()[field], no
			change = change.Without(field)
		}
	}
}

// answered reports whether a refusal is about what was asked for, and not about who asks or
// when.
func answered(k refusal.Kind) bool {
	return k.Is(refusal.Invalid) || k.Is(refusal.Conflict) || k.Is(refusal.Unknown)
}

func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}

// blamed returns the fields of a change that a refusal is about: of "ingress" all of ingress,
// of "queues.voice.rate" the queues.
func blamed(path string, c policy.Change) (fields []string) {
	for _, field := range c.Given() {
		if path == field || path != "" && strings.HasPrefix(path, field+".") || strings.HasPrefix(field, path+".") {
			fields = append(fields, field)
		}
	}
	return fields
}

// tellFaults makes an Event of each fault that there is none about. It does not repeat itself
// while the fault lasts.
func (n *Node) tellFaults(d decide.Wanted) {
	now := map[string]bool{}
	say := func(of decide.Ref, reason, subject, message string) {
		key := strings.Join([]string{of.Kind, of.Namespace, of.Name, of.UID, reason, subject}, "\x00")
		if now[key] {
			return
		}
		if now[key] = true; !n.told[key] {
			n.opts.Log.Warn(message, "about", of.Kind, "namespace", of.Namespace, "name", of.Name)
			n.opts.Events(of, reason, message)
		}
	}
	for _, f := range d.Faults {
		say(f.Ref, reasonInvalid, f.Err.Error(), f.Err.Error()+"; the other annotations hold")
	}
	about := func(of decide.Ref, name string, annotations map[string]string) {
		r := n.refused[name]
		for _, field := range slices.Sorted(maps.Keys(r.errs)) {
			no := r.errs[field]
			if field == "" {
				say(of, reasonRefused, no.Field+no.Msg, fmt.Sprintf("the agent refuses it on this node: %v", no))
				continue
			}
			subject := decide.Source(field, annotations)
			mistake := invalid.Error{Field: subject, Value: r.values[field], Msg: "not in force on this node: " + no.Msg, Remedy: no.Remedy}
			say(of, reasonRefused, field+"="+r.values[field], mistake.Error())
		}
	}
	cut := func(of decide.Ref, cuts []api.PolicyCut, annotations map[string]string) {
		for _, c := range cuts {
			if c.Origin == "asked" {
				mistake := invalid.Error{Field: decide.Source(c.Field, annotations), Value: c.Asked, Msg: "not in force on this node: " + c.Reason}
				say(of, reasonRefused, c.Field+"="+c.Asked, mistake.Error())
			}
		}
	}
	for _, g := range d.Groups {
		about(g.Ref, g.Name, nil)
		cut(g.Ref, n.have.groups[g.Name].Cut, nil)
	}
	for _, w := range d.Workloads {
		about(w.Ref(), w.Key(), w.Annotations)
		cut(w.Ref(), n.have.workloads[w.Key()].Cut, w.Annotations)
	}
	n.told = now
}
