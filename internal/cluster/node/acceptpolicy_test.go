// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/policy"
)

// Of a policy that comes with a container a node takes what its operator allows, and
// says what it leaves out.
func TestAcceptedPolicy(t *testing.T) {
	everything := `{"weight":2,"min":"90%","max":"none","reserve":"5mbit","limit_packets":9,"limit_bytes":9000,"discipline":"fifo","queues":[],"aqm":"off","dscp":"ef","group":"t","ingress":{"weight":3,"min":"50%","dscp":"ef"},"reset":true}`
	for _, test := range []struct {
		name  string
		allow []string
		kept  string
		left  string
	}{
		{"the default", config.Default().Accept().Policy,
			`{"weight":2,"min":"90%","max":"none","reserve":"5mbit","limit_packets":9,"limit_bytes":9000,"discipline":"fifo","queues":[],"aqm":"off","ingress":{"weight":3,"min":"50%"},"reset":true}`,
			"dscp, group, ingress.dscp"},
		{"all", policy.FieldNames(policy.OnWorkload), everything, ""},
		{"no reservation", []string{"weight", "max"}, `{"weight":2,"max":"none","ingress":{"weight":3},"reset":true}`,
			"min, reserve, limit_packets, limit_bytes, discipline, queues, aqm, dscp, group, ingress.min, ingress.dscp"},
		{"nothing", []string{}, `{"reset":true}`,
			"weight, min, max, reserve, limit_packets, limit_bytes, discipline, queues, aqm, dscp, group, ingress.weight, ingress.min, ingress.dscp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var given, want api.PolicyChange
			if err := errors.Join(json.Unmarshal([]byte(everything), &given), json.Unmarshal([]byte(test.kept), &want)); err != nil {
				t.Fatal(err)
			}
			n := &Node{opts: Options{Name: "b", AcceptPolicy: test.allow}}
			got, err := n.accepted(given)
			gotText, _ := json.Marshal(got)
			wantText, _ := json.Marshal(want)
			if string(gotText) != string(wantText) {
				t.Errorf("kept %s, want %s", gotText, wantText)
			}
			if said := "b does not take " + test.left + " with containers of others (cluster.accept.policy)"; test.left == "" && err != nil ||
				test.left != "" && (err == nil || !strings.Contains(err.Error(), said)) {
				t.Errorf("said %v, want %q", err, said)
			}
		})
	}
}

// A change that came with a container names no queue for its reservation: it would change a
// queue where queues are not taken.
func TestAcceptedPolicyNamesNoQueue(t *testing.T) {
	var given api.PolicyChange
	if err := json.Unmarshal([]byte(`{"reserve":"5mbit","reserve_queue":"voice","ingress":{"reserve":"5mbit","reserve_queue":"voice"}}`), &given); err != nil {
		t.Fatal(err)
	}
	got, err := (&Node{opts: Options{Name: "b", AcceptPolicy: []string{"reserve"}}}).accepted(given)
	if err != nil || got.ReserveQueue != "" || got.Ingress == nil || got.Ingress.ReserveQueue != "" || !got.Gives("ingress.reserve") {
		t.Errorf("%+v with ingress %+v, %v", got, got.Ingress, err)
	}
}
