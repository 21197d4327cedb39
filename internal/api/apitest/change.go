// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"fmt"
	"slices"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
)

// Set implements api.Agent.
func (f *Fake) Set(_ context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(name)
	if err != nil {
		return api.ChangeResult{}, err
	}
	w := copyOf(f.workloads[i])
	if change.Reset {
		w.Policy = f.original[w.Name]
	}
	changes, err := apply(&w, change)
	if err != nil {
		return api.ChangeResult{}, err
	}
	if change.Reset {
		changes = append([]api.Edit{{What: "reset " + w.Name, Why: "asked by weir set"}}, changes...)
	}
	if err := f.admit(w); err != nil {
		return api.ChangeResult{}, err
	}
	if !dryRun {
		f.workloads[i] = w
	}
	return api.ChangeResult{DryRun: dryRun, Changes: changes, Workload: &w}, nil
}

// Attach implements api.Agent.
func (f *Fake) Attach(_ context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, err := f.find(req.Name); err == nil && req.Pod != "" && f.workloads[i].Kind == workload.KindPod {
		f.workloads = slices.Delete(f.workloads, i, i+1)
	} else if err == nil {
		return api.ChangeResult{}, &refusal.Error{
			Kind: refusal.Conflict, Field: "name", Value: req.Name,
			Msg: fmt.Sprintf("%q is taken", req.Name), Remedy: "choose another name, or detach that one first",
		}
	}
	w := Workload(req.Name, 1, 0, 0, 0)
	w.Kind, w.Key, w.Class = workload.KindNetns, workload.Key(workload.KindNetns, req.Name), uint16(len(f.workloads))
	if req.Device != "" {
		w.Kind, w.Key, w.Devices = workload.KindDevice, workload.Key(workload.KindDevice, req.Name), []string{req.Device}
	}
	if req.Unit != "" {
		w.Kind, w.Key, w.Cgroups = workload.KindUnit, workload.Key(workload.KindUnit, req.Name), []string{"/sys/fs/cgroup/system.slice/" + req.Unit}
	}
	if req.Cgroup != "" {
		w.Kind, w.Key, w.Cgroups = workload.KindCgroup, workload.Key(workload.KindCgroup, req.Name), []string{req.Cgroup}
	}
	if req.Pod != "" {
		w.Kind, w.Key, w.ID = workload.KindPod, workload.Key(workload.KindPod, req.Name), req.Pod
	}
	if _, err := apply(&w, req.Policy); err != nil {
		return api.ChangeResult{}, err
	}
	if err := f.admit(w); err != nil {
		return api.ChangeResult{}, err
	}
	if !dryRun {
		f.workloads = append(f.workloads, w)
		f.original[w.Name] = w.Policy
	}
	what := fmt.Sprintf("eth0: add %s: weight %d", w.Name, w.Policy.Weight)
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: what, Why: "asked by weir attach"}}, Workload: &w}, nil
}

// Detach implements api.Agent.
func (f *Fake) Detach(_ context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.find(name)
	if err != nil {
		return api.ChangeResult{}, err
	}
	w := f.workloads[i]
	if w.Kind == workload.KindDocker || w.Kind == workload.KindHost {
		return api.ChangeResult{}, &refusal.Error{
			Kind: refusal.Conflict, Field: "workload", Value: name,
			Msg: w.Name + " was not attached by hand", Remedy: "use weir set to change its policy",
		}
	}
	if !dryRun {
		f.workloads = slices.Delete(f.workloads, i, i+1)
	}
	what := fmt.Sprintf("eth0: remove %s", w.Name)
	return api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{{What: what, Why: "asked by weir detach"}}}, nil
}

// apply changes w and says what changed.
func apply(w *api.Workload, c api.PolicyChange) ([]api.Edit, error) {
	var out []api.Edit
	say := func(field, value string) {
		w.Origin[field] = "set"
		out = append(out, api.Edit{
			What: fmt.Sprintf("eth0: %s: %s %s", w.Name, field, value),
			Why:  "asked by weir set",
		})
	}
	if err := c.Readable(); err != nil {
		return nil, api.Mistake(err)
	}
	w.Policy.Policy = c.Apply(w.Policy.Policy)
	for _, name := range c.Given() {
		say(name, c.Texts()[name])
	}
	for i := range w.Links {
		if c.Gives("min") {
			w.Links[i].MinBps = uint64(w.Policy.Min.Of(Capacity))
		}
		if c.Gives("max") {
			w.Links[i].MaxBps = uint64(w.Policy.Max.Of(Capacity))
		}
	}
	return out, nil
}

// admit refuses mins that add up to more than the link.
func (f *Fake) admit(w api.Workload) error {
	var others uint64
	for _, o := range f.workloads {
		if o.Name != w.Name && len(o.Links) > 0 {
			others += o.Links[0].MinBps
		}
	}
	if len(w.Links) == 0 || others+w.Links[0].MinBps <= Capacity {
		return nil
	}
	free := uint64(Capacity-others) / 1e6
	return &refusal.Error{
		Kind: refusal.NoRoom, Object: "link eth0", Field: "min", Value: w.Policy.Min.Compact(),
		Msg: fmt.Sprintf("link eth0 cannot hold it: %d Mbit/s asked, %d Mbit/s reserved by others, %d Mbit/s free",
			w.Links[0].MinBps/1e6, others/1e6, free),
		Remedy:  fmt.Sprintf("ask for at most %dmbit or lower another workload's min", free),
		Numbers: &refusal.Numbers{AskedBps: w.Links[0].MinBps, ReservedBps: others, LimitBps: Capacity, FreeBps: Capacity - others},
	}
}
