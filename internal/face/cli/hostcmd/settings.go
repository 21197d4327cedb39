// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
)

// setting is one field of a workload or group that was set at run time, with what would count
// without that.
type setting struct {
	Name    string `json:"name"`
	Group   bool   `json:"group,omitempty"`
	Field   string `json:"field"`
	Set     string `json:"set"`
	Instead string `json:"instead"`
	From    string `json:"from"` // an origin as in api.Workload
}

// setFields returns the fields that were set at run time, sorted.
func setFields(origin map[string]string) (fields []string) {
	for field, from := range origin {
		if from == "set" {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// settings returns all that was set at run time. A dry run of a reset says what would count
// instead.
func (a Commands) settings(ctx context.Context) ([]setting, error) {
	list := []setting{}
	err := a.eachSet(ctx, func(name string, group bool, set view) error {
		without, err := a.reset(ctx, name, group, true)
		if err != nil {
			return err
		}
		after := viewOf(without)
		for _, field := range setFields(set.origin) {
			list = append(list, setting{name, group, field, set.fields.text(field), after.fields.text(field), after.origin[field]})
		}
		return nil
	})
	return list, err
}

// eachSet calls do for each workload and group of which something was set at run time.
func (a Commands) eachSet(ctx context.Context, do func(name string, group bool, set view) error) error {
	workloads, err := a.AgentClient().Workloads(ctx)
	if err != nil {
		return err
	}
	groups, err := a.AgentClient().Groups(ctx)
	if err != nil {
		return err
	}
	for _, w := range workloads {
		if len(setFields(w.Origin)) > 0 {
			if err := do(w.Name, false, viewOf(api.ChangeResult{Workload: &w})); err != nil {
				return err
			}
		}
	}
	for _, g := range groups {
		if len(setFields(g.Origin)) > 0 {
			if err := do(g.Name, true, viewOf(api.ChangeResult{Group: &g})); err != nil {
				return err
			}
		}
	}
	return nil
}

// reset drops what was set at run time of one workload or group.
func (a Commands) reset(ctx context.Context, name string, group, dryRun bool) (api.ChangeResult, error) {
	change := api.PolicyChange{Options: api.Options{Reset: true}}
	if group {
		return a.AgentClient().SetGroup(ctx, name, api.GroupChange{PolicyChange: change}, dryRun)
	}
	return a.AgentClient().Set(ctx, name, change, dryRun)
}

// resetAll drops all that was set at run time, and prints what that changes.
func (a Commands) resetAll(ctx context.Context, dryRun bool) error {
	results := []api.ChangeResult{}
	err := a.eachSet(ctx, func(name string, group bool, _ view) error {
		result, err := a.reset(ctx, name, group, dryRun)
		if err == nil {
			results = append(results, result)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(results, func() string {
		if len(results) == 0 {
			return "nothing was set at run time\n"
		}
		var b strings.Builder
		for _, r := range results {
			r.Effects = nil // of one reset after the other; weir set NAME --reset --dry-run has them
			b.WriteString(frame.RenderReset(r))
		}
		return b.String()
	})
}

// view is a policy as fields, and where each comes from.
type view struct {
	fields fieldTexts
	origin map[string]string
}

type fieldTexts map[string]any

func viewOf(r api.ChangeResult) view {
	v := view{fields: fieldTexts{}}
	var policy any
	switch {
	case r.Workload != nil:
		policy, v.origin = r.Workload.Policy, r.Workload.Origin
	case r.Group != nil:
		policy, v.origin = r.Group.Policy, r.Group.Origin
	}
	if text, err := json.Marshal(policy); err == nil {
		_ = json.Unmarshal(text, &v.fields) // what cannot be read is shown as none
	}
	return v
}

// text returns a field for people, "ingress.max" out of the policy of ingress.
func (f fieldTexts) text(field string) string {
	if inner, ok := strings.CutPrefix(field, "ingress."); ok {
		in, _ := f["ingress"].(map[string]any)
		return fieldTexts(in).text(inner)
	}
	switch value := f[field].(type) {
	case nil:
		return "none"
	case string:
		if value == "" {
			return "none"
		}
		return value
	case float64:
		return fmt.Sprintf("%.0f", value)
	default:
		text, _ := json.Marshal(value)
		return string(text)
	}
}

// renderSettings returns the table of weir get --set.
func renderSettings(list []setting) string {
	if len(list) == 0 {
		return "nothing was set at run time; labels and weir.yaml count\n"
	}
	t := table.New("NAME", "FIELD", "SET", "INSTEAD OF", "WHICH IS")
	for _, s := range list {
		name := s.Name
		if s.Group {
			name = "group " + name
		}
		t.Add(name, s.Field, s.Set, s.Instead, originText(s.From))
	}
	return t.String() + "\nweir set NAME --reset drops one's, weir set --all --reset all of them\n"
}
