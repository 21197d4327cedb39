// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/discover"
	"weir/internal/invalid"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/refusal"
)

// patience is how long Attach waits for the source to find the devices.
const patience = time.Second

// Set implements api.Agent.
func (a *Agent) Set(ctx context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	if down := a.do(ctx, func() { result, err = a.setPolicy(ctx, name, change, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	return result, err
}

func (a *Agent) setPolicy(ctx context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	change, err := a.withQueue(name, change)
	if err != nil {
		return api.ChangeResult{}, err
	}
	if err := change.Readable(); err != nil {
		return api.ChangeResult{}, api.Mistake(err)
	}
	if change.Empty() {
		return api.ChangeResult{}, &refusal.Error{Kind: refusal.Invalid, Field: "body", Msg: "nothing to change",
			Remedy: "give at least one of " + strings.Join(policy.FieldNames(policy.OnWorkload), ", ") + " and reset"}
	}
	w, err := resolve(name, a.decided.workloads())
	if err != nil {
		return api.ChangeResult{}, err
	}
	if err := a.steersIngress(change, portless(w)); err != nil {
		return api.ChangeResult{}, err
	}
	next := a.world.clone()
	kept := next.set[w.Key]
	if change.Reset {
		kept = policy.Change{}
	}
	if kept = kept.Over(change.Change); kept.Empty() {
		delete(next.set, w.Key)
	} else {
		next.set[w.Key] = kept
	}
	next.accept(w.Key, change.Texts(), change.AcceptGaps, change.Reset)
	return a.trySetting(ctx, a.world.set[w.Key], next.set[w.Key], trial{world: next, attached: a.attached, key: w.Key, given: change.Texts(), why: "asked by weir set", dryRun: dryRun})
}

// steersIngress refuses a change of what nobody would hold. portless is of the workload.
func (a *Agent) steersIngress(change api.PolicyChange, portless bool) error {
	asked := change.Ingress != nil && !change.Ingress.Empty()
	if asked && portless {
		return &refusal.Error{Kind: refusal.Invalid, Field: "ingress", Msg: noPortIn,
			Remedy: "give the link's ingress as much less (ingress: in weir.yaml or weir agent --ingress), or run it in a network namespace of its own (weir attach --netns)"}
	}
	if !asked || slices.ContainsFunc(a.links, func(l *link) bool { return l.config.Direction == policy.Ingress }) {
		return nil
	}
	return &refusal.Error{Kind: refusal.Invalid, Field: "ingress", Msg: "no link's ingress is steered",
		Remedy: "say what a link can receive, by ingress: under links: in weir.yaml or weir agent --ingress"}
}

// trial is a change that somebody asked for, to be made as a whole or not at all.
type trial struct {
	world    world
	attached []config.Attachment
	key      string            // of the workload or group it is about
	given    map[string]string // the fields that were asked for, as text
	why      string
	dryRun   bool
}

// try makes the change, or with a dry run says what it would change.
func (a *Agent) try(ctx context.Context, t trial) (api.ChangeResult, error) {
	result, _, err := a.tryRuling(ctx, t)
	return result, err
}

// tryRuling is try; it also returns what was decided.
func (a *Agent) tryRuling(ctx context.Context, t trial) (api.ChangeResult, decision, error) {
	next := rule(t.world, t.attached)
	d := next.decided
	failed := func(err error) (api.ChangeResult, decision, error) { return api.ChangeResult{}, d, err }
	if err := acceptable(a.decided, d, t); err != nil {
		return failed(err)
	}
	why := reasons{general: "follows from the change of " + t.key, byKey: map[string]string{t.key: t.why}}
	if t.dryRun {
		result := api.ChangeResult{DryRun: true, Changes: a.wouldChange(d, why)}
		a.show(&result, d, t.key)
		return result, d, nil
	}
	if err := a.store.save(a.keep(next)); err != nil {
		return failed(fmt.Errorf("change not made: %w", err))
	}
	before := ruling{a.world, a.decided, a.attached}
	changes, err := a.commit(ctx, next, why)
	if err != nil {
		// The user is told that it failed, so it must not come true later.
		_, undo := a.commit(ctx, before, reasons{general: "the change could not be made"})
		return failed(fmt.Errorf("change not made: %w", errors.Join(err, undo)))
	}
	result := api.ChangeResult{Changes: describe(changes)}
	a.show(&result, d, t.key)
	return result, d, nil
}

// trySetting is try for a change of what is set at run time, from one layer to
// another; the answer also says what of it was stored and dropped.
func (a *Agent) trySetting(ctx context.Context, from, to policy.Change, t trial) (api.ChangeResult, error) {
	was := a.decided
	result, is, err := a.tryRuling(ctx, t)
	if err != nil {
		return result, err
	}
	before, existed := was.any(t.key)
	after, _ := is.any(t.key)
	if existed {
		storingOf(from, to, before.policy, after.policy).put(&result)
	}
	result.NotHeld = after.storedUnheld(from, to, existed)
	maps.DeleteFunc(result.NotHeld, func(field, _ string) bool { return result.Stored[field] != "" })
	return result, nil
}

// show puts what the change was about into its result.
func (a *Agent) show(result *api.ChangeResult, d decision, key string) {
	if v, ok := d.verdict(key); ok {
		result.Workload = new(a.view(v, false))
	}
	if v, ok := d.group(key); ok {
		result.Group = new(a.groupView(v, d))
	}
}

// acceptable refuses a change of which something that was asked for does not come
// into force. What labels and the configuration ask for besides is not the
// caller's fault, unless the change is what makes it wrong.
func acceptable(before, after decision, t trial) error {
	v, ok := after.verdict(t.key)
	if !ok {
		if v, ok = after.group(t.key); !ok {
			return nil
		}
		if err := holdsMembers(before, after, v, t); err != nil {
			return err
		}
	}
	was, existed := before.verdict(t.key)
	if !existed {
		was, existed = before.group(t.key)
	}
	if err := t.notHeld(v, existed); err != nil {
		return err
	}
	for _, device := range slices.Sorted(maps.Keys(v.refusals)) {
		for _, err := range v.refusals[device] {
			if err := t.fault(err, after.plans[device].Link, was, v, len(after.plans)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fault is the error to answer with if something that is refused is what the
// change asked for, nil if it is not.
func (t trial) fault(err error, link plan.Link, was, v verdict, links int) error {
	device, prefix := link.Name(), "" // of fields
	if link.Direction == policy.Ingress {
		prefix = "ingress."
	}
	var refused *policy.Refused
	if errors.As(err, &refused) {
		field := prefix + refused.Field()
		e := api.NoRoom(refused, device)
		e.Field, e.Value, e.Msg = field, t.given[field], fmt.Sprintf("link %s has no room for it: %s", device, refused.Reason())
		_, min := t.given[field]
		if _, queues := t.given[prefix+"queues"]; refused.Goodput != 0 && queues && !min { // one that a queue asks for
			min = true
		}
		group, joins := t.given["group"]
		switch {
		case refused.Group != "":
			e.Msg = fmt.Sprintf("group %s has no room for it on link %s: %s", refused.Group, device, refused.Reason())
		case !min:
			e.Msg = fmt.Sprintf("link %s has no room for its %s: %s", device, refused.Field(), refused.Reason())
		}
		if !min {
			e.Field, e.Value = "group", group
		}
		if !min && !joins {
			return nil
		}
		return e
	}
	var mistake *invalid.Error
	if !errors.As(err, &mistake) || len(t.given) == 0 && v.Kind != kindGroup {
		return nil
	}
	field, _, _ := strings.Cut(mistake.Field, ".")
	if field != "group" {
		field = prefix + field
	}
	if field == "group" && v.groupless() < links {
		return nil // a scheduler without groups on one link does not forbid them on another
	}
	_, asked := t.given[field]
	known := slices.ContainsFunc(was.refusals[device], func(e error) bool {
		before, is := errors.AsType[*invalid.Error](e)
		return is && *before == *mistake
	})
	if !asked && known {
		return nil
	}
	e := api.Mistake(mistake)
	if field != "group" {
		e.Field = prefix + e.Field
	}
	if slices.Contains([]string{"min", "max", "reserve"}, strings.TrimPrefix(field, prefix)) || mistake.Field == "queues" { // which percentages make depend on the link
		e.Msg += " on link " + device
	}
	return e
}

// groupless counts the links on which the workload is refused its group, or the
// group itself.
func (v verdict) groupless() int {
	n := 0
	for link := range v.refusals {
		if v.groupRefused(link) {
			n++
		}
	}
	return n
}

// groupRefused reports whether a link has refused the workload its group, or the
// group itself.
func (v verdict) groupRefused(link string) bool {
	return slices.ContainsFunc(v.refusals[link], func(err error) bool {
		var mistake *invalid.Error
		return errors.As(err, &mistake) && mistake.Field == "group"
	})
}

// wouldChange is what the kernel would be told, over all links.
func (a *Agent) wouldChange(d decision, why reasons) []api.Change {
	var all []plannedChange
	for _, l := range a.links {
		want := l.pacer.Paced(d.plans[l.config.Name()])
		all = append(all, explained(plan.Brief(plan.Diff(l.want, want), l.want, want), l.config.Name(), d, why)...)
	}
	return describe(all)
}

func describe(changes []plannedChange) []api.Change {
	list := make([]api.Change, len(changes))
	for i, c := range changes {
		list[i] = api.Change{What: c.link + ": " + c.Text, Why: c.why}
	}
	return list
}

// Attach implements api.Agent.
func (a *Agent) Attach(ctx context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	var wait *pending
	if down := a.do(ctx, func() { result, wait, err = a.attach(ctx, req, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	if err != nil || wait == nil {
		return result, err
	}
	select { // so that the answer shows the devices
	case <-wait.reported:
	case <-time.After(patience):
	case <-ctx.Done():
	}
	err = a.do(ctx, func() {
		if v, ok := a.decided.verdict(wait.workload.Key); ok {
			result.Workload = new(a.view(v, false))
		}
	})
	return result, err
}

func (a *Agent) attach(ctx context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, *pending, error) {
	at := config.Attachment{Name: req.Name, Netns: req.Netns, Device: req.Device, Unit: req.Unit, Cgroup: req.Cgroup}
	if err := a.checkAttach(at, req.Policy); err != nil {
		return api.ChangeResult{}, nil, err
	}
	p := &pending{workload: asWorkload(at), reported: make(chan struct{})}
	next := a.world.clone()
	next.found = append(next.found, p.workload)
	slices.SortFunc(next.found, byKey)
	if !req.Policy.Change.Empty() {
		next.set[p.workload.Key] = req.Policy.Change
	}
	next.accept(p.workload.Key, req.Policy.Texts(), req.Policy.AcceptGaps, false)
	// The source checks whether the thing exists, so it is asked in a dry run too.
	if err := a.attacher().Attach(at, false); err != nil {
		return api.ChangeResult{}, nil, api.Mistake(err)
	}
	a.pending[p.workload.Key] = p
	result, err := a.try(ctx, trial{world: next, attached: append(slices.Clone(a.attached), at),
		key: p.workload.Key, given: req.Policy.Texts(), why: "asked by weir attach", dryRun: dryRun})
	if err == nil && !dryRun {
		return result, p, nil
	}
	delete(a.pending, p.workload.Key)
	return result, nil, errors.Join(err, a.attacher().Detach(at))
}

// checkAttach refuses what cannot be attached, before anything is touched.
func (a *Agent) checkAttach(at config.Attachment, change api.PolicyChange) error {
	if err := config.CheckName(at.Name); err != nil {
		return api.Mistake(err)
	}
	if err := at.Check(); err != nil {
		return api.Mistake(err)
	}
	if a.linkOf(at.Device) != nil {
		return &refusal.Error{Kind: refusal.Invalid, Field: "device", Value: at.Device,
			Msg: "is a link that Weir steers", Remedy: "name the device by which the workload's packets come to the host"}
	}
	for _, v := range a.decided.verdicts {
		if v.Name == at.Name {
			return &refusal.Error{Kind: refusal.Conflict, Field: "name", Value: at.Name,
				Msg: fmt.Sprintf("is taken by %s", v.Key), Remedy: "choose another name, or detach that one first"}
		}
	}
	if err := a.owned(at); err != nil {
		return err
	}
	if err := change.Readable(); err != nil {
		return api.Mistake(err)
	}
	return a.steersIngress(change, at.Unit != "" || at.Cgroup != "")
}

// Detach implements api.Agent.
func (a *Agent) Detach(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	if down := a.do(ctx, func() { result, err = a.detach(ctx, name, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	return result, err
}

func (a *Agent) detach(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	w, err := resolve(name, a.decided.workloads())
	if err != nil {
		return api.ChangeResult{}, err
	}
	i := slices.IndexFunc(a.attached, func(at config.Attachment) bool { return asWorkload(at).Key == w.Key })
	if i < 0 {
		return api.ChangeResult{}, a.notAttached(w)
	}
	at := a.attached[i]
	next := a.world.clone()
	next.forget(w.Key)
	result, err := a.try(ctx, trial{world: next, attached: slices.Delete(slices.Clone(a.attached), i, i+1),
		key: w.Key, why: "asked by weir detach", dryRun: dryRun})
	if err != nil || dryRun {
		return result, err
	}
	delete(a.pending, w.Key)
	for _, s := range a.sources {
		s.seen = without(s.seen, w.Key)
	}
	return result, a.attacher().Detach(at)
}

func (a *Agent) notAttached(w discover.Workload) error {
	e := &refusal.Error{Kind: refusal.Conflict, Field: "name", Value: w.Name,
		Msg: w.Name + " was not attached by weir attach", Remedy: "it goes when its source no longer has it, a container when it is stopped"}
	if w.Name == config.HostName {
		e.Remedy = "the host is always there"
	}
	if slices.ContainsFunc(a.world.config.Attach, func(at config.Attachment) bool { return means(at, w) }) {
		e.Remedy = "take it out of attach: in " + a.world.config.Path
		if w.Name == config.ImagePulls {
			e.Remedy = "take it out of workloads: or attach: in " + a.world.config.Path
		}
	}
	return e
}
