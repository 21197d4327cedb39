// SPDX-License-Identifier: Apache-2.0

package markdown

import "testing"

func TestTable(t *testing.T) {
	want := "| a | b |\n|---|---|\n| 1 | 2 |\n"
	if got := Table([]string{"a", "b"}, []string{"1", "2"}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := Table(); got != "" {
		t.Errorf("a table without rows is %q", got)
	}
}

func TestAnchor(t *testing.T) {
	if got := Anchor("Figure 3: the link, shaped (again)"); got != "figure-3-the-link-shaped-again" {
		t.Errorf("got %q", got)
	}
}
