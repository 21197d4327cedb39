// SPDX-License-Identifier: Apache-2.0

package api

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/core/policy"
)

// The schemas of policies and their changes come from the table of fields, so that
// OpenAPI, and with it the validation of requests, has every field.

// optionNames returns the JSON names of Options.
func optionNames() []string {
	var names []string
	for f := range reflect.TypeFor[Options]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// RequestFields returns the names of all members that a change of a policy can have.
func RequestFields() []string {
	names := slices.Concat(policy.FieldNames(policy.OnWorkload), []string{"ingress", "reserve_queue"}, optionNames())
	for _, f := range policy.QueueFields() {
		names = append(names, f.Name)
	}
	return names
}

// Schema implements huma.SchemaProvider.
func (Policy) Schema(r huma.Registry) *huma.Schema {
	return component(r, "Policy", func() *huma.Schema {
		s := view(r, policy.OnWorkload)
		s.Properties["ingress"] = component(r, "IngressPolicy", func() *huma.Schema { return view(r, policy.OnIngress) })
		return s
	})
}

// Schema implements huma.SchemaProvider.
func (GroupPolicy) Schema(r huma.Registry) *huma.Schema {
	return component(r, "GroupPolicy", func() *huma.Schema { return view(r, policy.OnGroup) })
}

// Schema implements huma.SchemaProvider.
func (PolicyChange) Schema(r huma.Registry) *huma.Schema {
	return component(r, "PolicyChange", func() *huma.Schema {
		s := withOptions(r, asked(r, policy.OnWorkload))
		reserveQueue(s)
		s.Properties["ingress"] = component(r, "IngressPolicyChange", func() *huma.Schema {
			in := asked(r, policy.OnIngress)
			reserveQueue(in)
			return in
		})
		return s
	})
}

// Schema implements huma.SchemaProvider.
func (GroupChange) Schema(r huma.Registry) *huma.Schema {
	return component(r, "GroupChange", func() *huma.Schema { return withOptions(r, asked(r, policy.OnGroup)) })
}

// component enters a schema among those that others refer to, once.
func component(r huma.Registry, name string, make func() *huma.Schema) *huma.Schema {
	if r.Map()[name] == nil {
		s := make()
		s.PrecomputeMessages()
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

func object() *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: false}
}

// view returns the schema of a policy in an answer.
func view(r huma.Registry, on policy.Place) *huma.Schema {
	s := object()
	for _, f := range policy.Fields(on) {
		s.Properties[f.Name] = value(r, f, on)
		if f.Always {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

// asked returns the schema of a change in a request, in which no field has to be.
func asked(r huma.Registry, on policy.Place) *huma.Schema {
	s := object()
	for _, f := range policy.Fields(on) {
		s.Properties[f.Name] = value(r, f, on)
	}
	return s
}

func reserveQueue(s *huma.Schema) {
	s.Properties["reserve_queue"] = &huma.Schema{Type: huma.TypeString, Description: "name of the queue that reserve is about; without it, it is about the workload"}
}

func withOptions(r huma.Registry, s *huma.Schema) *huma.Schema {
	maps.Copy(s.Properties, huma.SchemaFromType(r, reflect.TypeFor[Options]()).Properties)
	return s
}

func value(r huma.Registry, f policy.Field, on policy.Place) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: f.DocOn(on), Examples: []any{f.Example}}
	for _, choice := range f.Choices {
		s.Enum = append(s.Enum, choice)
	}
	switch f.Form {
	case policy.Number:
		s = number(f.Min, f.Max)
		s.Description = f.DocOn(on)
	case policy.List:
		s = &huma.Schema{Type: huma.TypeArray, Nullable: true, Description: f.DocOn(on), Items: component(r, "Queue", queue)}
	}
	return s
}

func number(least, most uint64) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(float64(least))}
	if most > 0 {
		s.Maximum = new(float64(most))
	}
	return s
}

// queue returns the schema of a queue, whose matches are objects of their own.
func queue() *huma.Schema {
	s := object()
	s.Properties["name"], s.Required = &huma.Schema{Type: huma.TypeString}, []string{"name"}
	for _, f := range policy.QueueFields() {
		q := &huma.Schema{Type: huma.TypeString}
		switch f.Form {
		case policy.Number:
			q = number(0, f.Max)
		case policy.List:
			q = &huma.Schema{Type: huma.TypeArray, Nullable: true, Items: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}
		}
		q.Description = f.Doc
		s.Properties[f.Name] = q
	}
	return s
}
