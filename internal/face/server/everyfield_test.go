// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/core/policy"
)

// together are the fields without which a field means nothing.
var together = map[string]string{"queues": "discipline", "discipline": "queues"}

// asked returns names and examples of a field and of what it needs.
func asked(name, prefix string) []string {
	var pairs []string
	for _, f := range policy.Fields(policy.OnWorkload | policy.OnGroup) {
		if f.Name == name || f.Name == together[name] {
			pairs = append(pairs, prefix+f.Name, f.Example)
		}
	}
	return pairs
}

// Every field of the table is in the OpenAPI document, wherever it may stand.
func TestEveryFieldIsInOpenAPI(t *testing.T) {
	s, _ := startWith(t, demo(), Options{})
	resp, err := over(t, s.opts.Socket).Get("http://weir/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for on, schemas := range map[policy.Place][]string{
		policy.OnWorkload: {"Policy", "PolicyChange"},
		policy.OnIngress:  {"IngressPolicy", "IngressPolicyChange"},
		policy.OnGroup:    {"GroupPolicy", "GroupChange"},
	} {
		for _, schema := range schemas {
			properties := doc.Components.Schemas[schema].Properties
			for _, name := range policy.FieldNames(on) {
				if properties[name] == nil {
					t.Errorf("schema %s has no %s", schema, name)
				}
			}
		}
	}
}

// Every field can be asked for by a request, and is shown afterwards.
func TestEveryFieldCrossesTheSocket(t *testing.T) {
	client := start(t, demo().WithGroup("tenant-b", 1, 0, 0))
	for _, name := range policy.AllNames() {
		field, prefix := filepath.Ext("." + name)[1:], ""
		if field != name {
			prefix = "ingress."
		}
		change := apitest.Change(asked(field, prefix)...)
		if _, err := client.Set(t.Context(), "web", change, false); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		w, err := client.Workload(t.Context(), "web")
		if err != nil || !policy.Same(name, w.Policy.Policy, change.Apply(policy.Default())) {
			t.Errorf("%s is shown as %+v, %v", name, w.Policy, err)
		}
	}
	for _, f := range policy.Fields(policy.OnGroup) {
		if _, err := client.SetGroup(t.Context(), "tenant-b", apitest.GroupChange(f.Name, f.Example), false); err != nil {
			t.Errorf("group %s: %v", f.Name, err)
		}
		g, err := client.Group(t.Context(), "tenant-b")
		if err != nil || f.Write(g.Policy.Policy) != f.Example {
			t.Errorf("%s of a group is shown as %+v, %v", f.Name, g.Policy, err)
		}
	}
	if !slices.Contains(policy.FieldNames(policy.OnGroup), "weight") {
		t.Error("the table has no fields for groups")
	}
}
