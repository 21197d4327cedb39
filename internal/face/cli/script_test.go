// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/face/cli"
	"weir/internal/face/managercli"
	"weir/internal/lab/labcli"
	"weir/internal/test/goldentest"
)

// scriptsTimeout ends a script whose command hangs. All of them take seconds; with
// the race detector on a busy machine, a minute.
const scriptsTimeout = 4 * time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"weir":         func() { os.Exit(cli.Main()) },
		"weir-lab":     func() { os.Exit(labcli.Main()) },
		"weir-manager": func() { os.Exit(managercli.Main()) },
	})
}

// TestScripts runs the commands against a real server on a unix socket, behind
// which stands a fake agent with the workloads of apitest.Demo.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *goldentest.Update,
		Deadline:            time.Now().Add(scriptsTimeout),
		Setup: func(env *testscript.Env) error {
			socket := filepath.Join(env.WorkDir, "weir.sock")
			env.Setenv("WEIR_SOCKET", socket)
			env.Setenv("TZ", "UTC")
			env.Setenv("TERM", "xterm")
			self, err := os.Executable()
			if err != nil {
				return err
			}
			alone := filepath.Join(env.WorkDir, "alone", "weir") // without weir-lab beside it
			env.Setenv("WEIR", alone)
			if err := errors.Join(os.Mkdir(filepath.Dir(alone), 0o755), os.Symlink(self, alone)); err != nil {
				return err
			}
			stop, err := cli.ServeFake(socket)
			if err == nil {
				env.Defer(stop)
			}
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "valid": scriptValid,
		},
	})
}

// scriptCode is "code N COMMAND...": the command must end with exit code N, and
// print one line on stderr that begins with "weir: " if N is not 0.
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	stderr := ts.ReadFile("stderr")
	if want != 0 && (strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "weir: ")) {
		ts.Fatalf("stderr is not one line that begins with weir: %q", stderr)
	}
}

// scriptValid is "valid json|yaml|jsonlines FILE".
func scriptValid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: valid json|yaml|jsonlines FILE")
	}
	text := ts.ReadFile(args[1])
	var v any
	switch args[0] {
	case "json":
		ts.Check(json.Unmarshal([]byte(text), &v))
	case "yaml":
		ts.Check(yaml.Unmarshal([]byte(text), &v))
	case "jsonlines":
		for line := range strings.Lines(text) {
			ts.Check(json.Unmarshal([]byte(line), &v))
		}
	default:
		ts.Fatalf("no such format: %s", args[0])
	}
	if v == nil {
		ts.Fatalf("%s is empty", args[1])
	}
}
