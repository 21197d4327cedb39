// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/policy"
)

// TestRightsAreTheNodesToo: what the admission policies refuse is cut at the node as well, and what
// they cannot read: fields inside of queues, zones and times. A label of the namespace allows it,
// and static pods are the node administrator's.
func TestRightsAreTheNodesToo(t *testing.T) {
	settings := Config{Forbidden: []string{"dscp", "limit_packets"}, Restricted: []string{"min", "reserve"}, MaxWeight: 100}
	labels := map[string]map[string]string{"paid": {"allow.weir.dev/min": "true", "allow.weir.dev/max": "true"}}
	for _, tt := range []struct {
		name, namespace string
		static          bool
		annotations     []string
		want            []string
	}{
		{"min", "shop", false, []string{"weir.dev/min", "1M", "weir.dev/weight", "7"}, []string{"shop/web weight=7",
			`Pod web: annotation weir.dev/min "1mbit": namespace shop may not say min; ask an administrator for the label allow.weir.dev/min=true on the namespace, or use a claim`}},
		{"min where it is allowed", "paid", false, []string{"weir.dev/min", "1M"}, []string{"paid/web min=1mbit"}},
		{"min of a static pod", "shop", true, []string{"weir.dev/min", "1M", "weir.dev/weight", "500"}, []string{"shop/web min=1mbit weight=500"}},
		{"ingress is another field", "shop", false, []string{"weir.dev/ingress.min", "1M"}, []string{"shop/web ingress.min=1mbit"}},
		{"no max", "shop", false, []string{"weir.dev/max", "none"}, []string{"shop/web", `Pod web: annotation weir.dev/max "none": namespace shop may not say max`}},
		{"no max where it is allowed", "paid", false, []string{"weir.dev/max", "none"}, []string{"paid/web max=none"}},
		{"weight", "paid", false, []string{"weir.dev/weight", "101", "weir.dev/ingress.weight", "100"}, []string{"paid/web ingress.weight=100",
			`Pod web: annotation weir.dev/weight "101": annotations may give weights up to 100 on this node; write less, or ask the node's administrator`}},
		{"a reservation in a queue", "shop", false, []string{"weir.dev/discipline", "cbwfq", "weir.dev/queues", "{a: {reserve: 40mbit, match: [{udp: 5001}]}, b: {reserve: 1mbit}}"},
			[]string{"shop/web", `Pod web: annotation weir.dev/queues "[{`}},
		{"a DSCP in a queue", "paid", false, []string{"weir.dev/discipline", "pq", "weir.dev/queues", "{a: {dscp: ef, match: [{udp: 5001}]}, b: {}}"},
			[]string{"paid/web", `Pod web: annotation weir.dev/queues "[{`}},
		{"a limit of a queue", "paid", false, []string{"weir.dev/discipline", "pq", "weir.dev/queues", "{a: {limit_packets: 9, match: [{udp: 5001}]}, b: {}}"},
			[]string{"paid/web", `Pod web: annotation weir.dev/queues "[{`}},
		{"a weight at times", "shop", false, []string{"weir.dev/when", "mon 08:00-18:00 weight 900"}, []string{"shop/web", `Pod web: annotation weir.dev/when "mon 08:00-18:00 weight 900": annotations may give weights up to 100`}},
		{"no max in a zone", "shop", false, []string{"weir.dev/zones", "lan weight 5"}, []string{"shop/web", `Pod web: annotation weir.dev/zones "lan weight 5": namespace shop may not say max`}},
		{"a max in a zone", "shop", false, []string{"weir.dev/zones", "lan max 5mbit"}, []string{"shop/web zones=lan max 5mbit"}},
		{"a weight in a zone", "paid", false, []string{"weir.dev/zones", "lan weight 500 max 5mbit"}, []string{"paid/web", `Pod web: annotation weir.dev/zones "lan weight 500 max 5mbit": annotations may give weights up to 100`}},
		{"an empty max", "paid", false, []string{"weir.dev/max", " "}, []string{"paid/web", `Pod web: annotation weir.dev/max " ": is empty, and says nothing`}},
		{"a min in a zone", "shop", false, []string{"weir.dev/zones", "lan min 5mbit"}, []string{"shop/web", `Pod web: annotation weir.dev/zones "lan min 5mbit": namespace shop may not say min`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lines(Decide(NodeInput{Config: settings, Labels: labels, Pods: []Pod{{Namespace: tt.namespace, Name: "web", Static: tt.static, Annotations: annotated(tt.annotations...)}}}))
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestSayingsAreComplete: each field of what stands inside of a policy's field is known to say a
// field of the policy, or to be about the workload's own packets. A field that is added has to be
// entered.
func TestSayingsAreComplete(t *testing.T) {
	for _, part := range []struct {
		fields map[string]string
		of     reflect.Type
	}{{inQueue, reflect.TypeFor[policy.Queue]()}, {inZone, reflect.TypeFor[policy.Zoned]()}} {
		for field := range part.of.Fields() {
			name, known := part.fields[field.Name]
			if !known || name != "" && !slices.Contains(policy.AllNames(), name) {
				t.Errorf("what %s.%s says is not known: %q", part.of, field.Name, name)
			}
			own := strings.ReplaceAll(strings.ToLower(regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(field.Name, "${1}_$2")), " ", "")
			among := part.of == reflect.TypeFor[policy.Queue]() && (field.Name == "Min" || field.Name == "Max") // what a queue has of the workload's
			if !among && slices.Contains(policy.AllNames(), own) && name != own {
				t.Errorf("%s.%s says %q, want %s", part.of, field.Name, name, own)
			}
		}
		if len(part.fields) != part.of.NumField() {
			t.Errorf("%s has %d fields, of which %d are known", part.of, part.of.NumField(), len(part.fields))
		}
	}
	// Lists of structs in a policy, but those that are entered in sayings.
	for field := range reflect.TypeFor[policy.Policy]().Fields() {
		if field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct && !slices.Contains([]string{"Queues", "Zones", "When"}, field.Name) {
			t.Errorf("what stands in policy.Policy.%s is not looked at", field.Name)
		}
	}
}
