// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Completion works in a bash without the package bash-completion, which Debian's
// servers do not have, also of values behind a = or with a colon.
func TestBashCompletionAlone(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	weir := weirCommand(t)
	dir := filepath.Dir(weir.Path)
	script, err := weirCommand(t, "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "weir.bash"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ line, words, want string }{
		{"weir sta", "weir sta", "status"},
		{"weir ", "weir ''", "agent "}, // and all others
		{"weir agent --log-format js", "weir agent --log-format js", "json"},
		{"weir agent --log-format=js", "weir agent --log-format = js", "json"},
		{"weir agent --log-format=", "weir agent --log-format =", "json text"},
		{"weir agent --metrics=127.0.0.1:9469 --backend b", "weir agent --metrics = 127.0.0.1 : 9469 --backend b", "bpf"},
		{"weir agent --link eth0=1mbit --scheduler ", "weir agent --link eth0 = 1mbit --scheduler ''", "ancs fair qcon"},
	} {
		t.Run(test.line, func(t *testing.T) {
			run := exec.Command(bash, "--norc", "--noprofile", "-c", `
				source weir.bash
				COMP_WORDS=(`+test.words+`) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=9 COLUMNS=200
				COMP_LINE=$1 COMP_POINT=${#COMP_LINE}
				__start_weir
				printf '%s\n' "${COMPREPLY[@]%% *}" | sort | tr '\n' ' '`, "bash", test.line)
			run.Dir, run.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "WEIR_SOCKET=" + filepath.Join(dir, "none")}
			out, err := run.Output()
			if got := string(out); err != nil || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}
