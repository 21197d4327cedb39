// SPDX-License-Identifier: Apache-2.0

package doccommand

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	page := "# Weir\n\n" +
		"    make demo     # three containers\n" +
		"    make test     # the tests\n\n" +
		"text\n\n" +
		"    $ weir set web --min 90mbit\n" +
		"    weir: min \"90mbit\": no room\n\ntext\n" +
		"    weir set pbx --discipline llq \\\n" +
		"      --queue 'rest: {}'\n\n" +
		"```yaml\n    weir get\n```\n" +
		"    rate = min(max, share)\n\n" +
		"    sudo weir cleanup\n\n" +
		"1. in a list\n\n" +
		"      $ grep BPF /boot/config\n      CONFIG_BPF=y\n\n" +
		"text\n```\nvm/run -- echo 'a\n  b'\n# a comment\nvmlinux\nmodules\n```\n"
	want := []Command{
		{3, "make demo", nil},
		{4, "make test", nil},
		{8, "weir set web --min 90mbit", []string{"weir: min \"90mbit\": no room"}},
		{12, "weir set pbx --discipline llq --queue 'rest: {}'", nil},
		{20, "weir cleanup", nil},
		{24, "grep BPF /boot/config", []string{"  CONFIG_BPF=y"}},
		{29, "vm/run -- echo 'a b'", nil},
	}
	got := Parse(page)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	others := []Line{{18, "rate = min(max, share)"}, {32, "vmlinux"}}
	if got := Others(page); !reflect.DeepEqual(got, others) {
		t.Errorf("others: got %+v, want %+v", got, others)
	}
}

func TestMissing(t *testing.T) {
	for _, test := range []struct {
		name    string
		shown   []string
		printed string
		want    string
	}{
		{"the same", []string{"web 20 Mbit/s"}, "web 20 Mbit/s\n", ""},
		{"other numbers", []string{"web   20 Mbit/s  3"}, "web 1.5 Gbit/s 44", ""},
		{"a number before a comma", []string{"agent ..., up 3 h, config"}, "agent v0.0.0-20261127110022-16a546c14ab3, up 20 s, config", ""},
		{"a number at a sentence's end", []string{"it has 3."}, "it has 1,000", "it has 3."},
		{"another word", []string{"web is up"}, "web is down", "web is up"},
		{"a line more", []string{"a"}, "a\nb", "the end, before b"},
		{"a line more that is stood for", []string{"a", "..."}, "a\nb", ""},
		{"lines between", []string{"a", "...", "c"}, "a\nb\nc", ""},
		{"the wrong order", []string{"c", "...", "a"}, "a\nb\nc", "c"},
		{"nothing printed", []string{"a"}, "", "a"},
		{"nothing shown", nil, "a\n", "the end, before a"},
		{"blank lines", []string{"a", "", "b"}, "\na\nb\n\n", ""},
		{"left out within a line", []string{"asked ...; moving to b"}, "asked the manager (now); moving to b", ""},
	} {
		if got := Missing(test.shown, test.printed); got != test.want {
			t.Errorf("%s: missing %q, want %q", test.name, got, test.want)
		}
	}
}
