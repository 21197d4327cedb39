// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"regexp"
	"testing"

	"weir/internal/core/policy"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamples: what the documentation shows can be read, and can be held.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/disciplines.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, block := range blocks {
		c, err := Parse("docs/disciplines.md", []byte(block[1]))
		if err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
		if len(c.Warnings) > 0 {
			t.Errorf("%s\n%s", c.Warnings, block[1])
		}
		for _, rule := range c.Workloads {
			if _, err := rule.Layer.Apply(policy.Default()).Sharer(100e6); err != nil {
				t.Errorf("%s: %v", rule.Pattern, err)
			}
		}
	}
}
