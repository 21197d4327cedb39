// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestFilesAreBounded: a policy that is too long or too deep, by aliases too, is refused with the
// numbers.
func TestFilesAreBounded(t *testing.T) {
	queues := func(text string) string { return "links: [{device: eth0, egress: 1gbit}]\n" + text }
	many := "defaults:\n  discipline: pq\n  queues:\n"
	for i := range 12000 {
		many += fmt.Sprintf("    q%d: {}\n", i)
	}
	laughs := "x: &x0 [{a: b}]\n"
	for i := range 6 {
		laughs += fmt.Sprintf("x%d: &x%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d,", i), 30))
	}
	for text, want := range map[string]string{
		queues(many): "defaults.queues: more than 65536 bytes, which are the most of one value; write less",
		queues("defaults: {queues: [[[[[[[[[1]]]]]]]]]}"):             "defaults.queues[0][0][0][0][0][0][0][0][0]: more than 8 levels, which are the most",
		queues("defaults: {queues: " + strings.Repeat("[", 20) + "}"): fmt.Sprintf("22 levels, %d are the most", deepest),
		queues(laughs + "defaults: {queues: *x6}"):                    "defaults.queues: more than",
	} {
		if _, err := Parse("weir.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %.300v, want %s", text, err, want)
		}
	}
}
