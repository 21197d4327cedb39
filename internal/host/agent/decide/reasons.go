// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/core/plan"
)

// Reasons say why a decision replaces another: in general, and for some workloads and groups
// by key.
type Reasons struct {
	General string
	ByKey   map[string]string
}

// Of returns why what the key stands for is changed.
func (r Reasons) Of(key string) string {
	if why, ok := r.ByKey[key]; ok {
		return why
	}
	return r.General
}

// PlannedChange is a change of a link's plan with its reason. Workload is the name of the
// workload or group that it is about, "" if it is about none.
type PlannedChange struct {
	plan.Edit
	Link, Workload, Why string
}

// Explained returns the changes of a link's plan with their reasons.
func Explained(changes []plan.Edit, device string, d Decision, why Reasons) []PlannedChange {
	if len(changes) == 0 {
		return nil
	}
	keys := map[plan.ClassID]string{}
	for key, id := range d.World.Number {
		keys[id] = key
	}
	names := map[string]string{}
	for _, v := range slices.Concat(d.Rulings, d.Groups) {
		names[v.Key] = v.Name
	}
	var list []PlannedChange
	for _, c := range changes {
		p := PlannedChange{Edit: c, Link: device, Why: why.General}
		if id, name, ok := concerns(c); ok {
			p.Why = why.Of(keys[id])
			_, gone, _ := strings.Cut(keys[id], ":")
			p.Workload = cmp.Or(name, names[keys[id]], gone)
		}
		list = append(list, p)
	}
	return list
}

// Awaiting returns changes of a link that is not steered: each says what it waits for.
func Awaiting(changes []PlannedChange) []PlannedChange {
	for i, c := range changes {
		changes[i].Why = fmt.Sprintf("%s; in force once %s is steered", c.Why, c.Link)
	}
	return changes
}

// Describe returns changes as the API shows them.
func Describe(changes []PlannedChange) []api.Edit {
	list := make([]api.Edit, len(changes))
	for i, c := range changes {
		list[i] = api.Edit{What: c.Link + ": " + c.Text, Why: c.Why}
	}
	return list
}

// concerns returns the class that a change is about, with its name where the change has it.
func concerns(c plan.Edit) (id plan.ClassID, name string, ok bool) {
	switch {
	case c.NewClass != nil:
		return c.NewClass.ID, c.NewClass.Name, true
	case c.OldClass != nil:
		return c.OldClass.ID, c.OldClass.Name, true
	case c.NewPort != nil:
		return c.NewPort.Class, "", true
	case c.OldPort != nil:
		return c.OldPort.Class, "", true
	}
	return 0, "", false
}
