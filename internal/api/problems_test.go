// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"
	"testing"

	"weir/internal/workload"
)

func TestAssess(t *testing.T) {
	good := Status{
		Links:   []LinkStatus{{Device: "eth0", Direction: "egress", Gaps: []string{"no groups"}}},
		Sources: []Source{{Name: "docker", State: workload.SourceOff}, {Name: "docker", State: workload.SourceNone}, {Name: "netns", State: workload.SourceOK}},
		Cluster: &Membership{Manager: "m:7474", State: "connected"},
	}
	for _, test := range []struct {
		name  string
		spoil func(*Status)
		want  []string
	}{
		{"all is well", func(*Status) {}, []string{}},
		{"no link", func(s *Status) { s.Links = nil }, []string{"no link is steered; name one under links: in weir.yaml"}},
		{"a link that is not steered", func(s *Status) { s.Links = []LinkStatus{{Device: "eth0", Direction: "ingress", Error: "gone"}} },
			[]string{"link eth0 ingress is not steered: gone"}},
		{"a wrong file", func(s *Status) { s.ConfigError = "weir.yaml:3: no" },
			[]string{"the configuration file is wrong, the one before it is in force: weir.yaml:3: no"}},
		{"a file with several mistakes", func(s *Status) { s.ConfigError = "weir.yaml:3: no\nweir.yaml:4: nor\nweir.yaml:5: this" },
			[]string{"the configuration file is wrong, the one before it is in force: weir.yaml:3: no (and 2 more)"}},
		{"somebody refused", func(s *Status) { s.Refused = []string{"a"} },
			[]string{"a: a part of the policy is not in force; weir get NAME says why"}},
		{"many refused", func(s *Status) { s.Refused = []string{"a", "b", "c", "d", "e"} },
			[]string{"a, b, c and 2 more: a part of the policy is not in force; weir get NAME says why"}},
		{"settings of links", func(s *Status) {
			gap := PolicyGap{Field: "scheduler", Value: "qcon", Reason: "HTB schedules"}
			accepted := PolicyGap{Field: "overhead", Value: "-4", Reason: "HTB counts 0", Accepted: true}
			s.Links = []LinkStatus{{Device: "eth0", NotHeld: []PolicyGap{gap, accepted}}, {Device: "eth0", Direction: "ingress", NotHeld: []PolicyGap{gap}}}
		}, []string{"link eth0: scheduler qcon is not held on this kernel: HTB schedules; take it out of the configuration, or accept_gaps: true in weir.yaml takes it so"}},
		{"no carrier", func(s *Status) {
			s.Links = []LinkStatus{{Device: "eth0", Direction: "egress", Down: "the device has no carrier, so nothing is sent"}}
		},
			[]string{"link eth0: the device has no carrier, so nothing is sent"}},
		{"a full disk", func(s *Status) {
			s.Unwritable = []Storage{{Path: "/var/log/weir", Lost: "the audit log is", Note: "the disk is full"}}
		}, []string{"/var/log/weir: the disk is full, so that the audit log is not kept; make room there, or mount it writable"}},
		{"a restart", func(s *Status) { s.Config, s.RestartDue = "/etc/weir/weir.yaml", []string{"metrics", "web"} },
			[]string{"metrics, web in /etc/weir/weir.yaml: in force from the next start of the agent on; systemctl restart weir"}},
		{"a source", func(s *Status) {
			s.Sources = []Source{{Name: "docker", State: workload.SourceUnavailable, Note: "no socket"}}
		},
			[]string{"source docker is unavailable: no socket; start it, or write docker: {enabled: false} in weir.yaml"}},
		{"the manager", func(s *Status) { s.Cluster = &Membership{Manager: "m:7474", State: "unreachable", Note: "timeout"} },
			[]string{"the manager at m:7474: unreachable: timeout"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := good
			test.spoil(&s)
			if got := s.Assess(); !slices.Equal(got, test.want) {
				t.Errorf("problems %q, want %q", got, test.want)
			}
		})
	}
}
