// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"testing"
	"time"

	"weir/internal/config"
)

// Foresee says what would be refused if everybody whom the file names were there.
func TestForesee(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       []string
	}{
		{"all fits", "links: [{device: eth0, egress: 100mbit}]\nworkloads: {web: {min: 40mbit}, db: {min: 60%}}", nil},
		{"a pattern is no workload", "links: [{device: eth0, egress: 100mbit}]\nworkloads: {\"w*\": {min: 90mbit}, db: {min: 60%}}", nil},
		{"a min too much", "links: [{device: eth0, egress: 100mbit}]\nworkloads: {web: {min: 40mbit}, db: {min: 70mbit}}",
			[]string{"db: link eth0: min is not in force: asked 70 Mbit/s, reserved 40 Mbit/s of 100 Mbit/s, free 60 Mbit/s"}},
		{"what is attached counts", "links: [{device: eth0, egress: 100mbit}]\ndefaults: {min: 40mbit}\nattach: [{name: a, netns: a}, {name: b, netns: b}]",
			[]string{"b: link eth0: min is not in force: asked 40 Mbit/s, reserved 80 Mbit/s of 100 Mbit/s, free 20 Mbit/s"}}, // the host has 40, too
		{"a group's min", "links: [{device: eth0, egress: 100mbit}]\ngroups: {t: {min: 50mbit}}\nworkloads: {web: {min: 60mbit}}",
			[]string{"t: link eth0: min is not in force: asked 50 Mbit/s, reserved 60 Mbit/s of 100 Mbit/s, free 40 Mbit/s"}},
		{"a min at times, above the max in another zone", "links: [{device: eth0, egress: 100mbit, zones: {cdn: {egress: 50mbit, prefixes: [192.0.2.0/24]}}}]\n" +
			"workloads: {web: {when: [{from: \"08:00\", to: \"18:00\", min: 40mbit}], zones: {cdn: {max: 10mbit}}}}", nil},
		{"one of two links", "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]\nworkloads: {web: {min: 40mbit}}",
			[]string{"web: link eth1: min is not in force: asked 40 Mbit/s, reserved 0 bit/s of 10 Mbit/s, free 10 Mbit/s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := config.Parse("weir.yaml", []byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := Foresee(c, time.Now()); !slices.Equal(got, test.want) {
				t.Errorf("foreseen %q, want %q", got, test.want)
			}
		})
	}
}
