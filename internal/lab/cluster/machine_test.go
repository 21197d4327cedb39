// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/program"
	"weir/internal/cluster/clustertest"
)

var long = flag.Bool("long", false, "run scenarios on virtual machines too, some minutes each")

// TestScenariosOnMachines runs the project's scenarios that are for virtual machines,
// and looks that nothing of them is left.
func TestScenariosOnMachines(t *testing.T) {
	if !*long {
		t.Skip("boots virtual machines; -long runs it")
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Program: filepath.Join(bin, program.Lab), Weir: filepath.Join(bin, program.Weir)}
	for _, file := range []string{options.Program, options.Weir} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("there is no %s; build it first: make build", file)
		}
	}
	for _, name := range []string{"vm", "vm-faults"} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			s, err := Load("../../../lab/cluster/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
			options.Event = func(e Event) {
				t.Logf("%6.1f s %s %s %s %s %+v", e.At.Seconds(), e.Verb, e.Subject, e.To, e.Err, e.Migration)
			}
			failures, err := Run(t.Context(), s, options)
			if errors.Is(err, clustertest.ErrNotPossible) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range failures {
				t.Errorf("%s: %s", f.Subject, f.What)
			}
			left, err := os.ReadDir(temp)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind in the temporary folder: %v, %v", left, err)
			}
			if list := machinesOf(t, temp); len(list) > 0 {
				t.Errorf("still running: %q", list)
			}
		})
	}
}

// machinesOf are the command lines of machines that were started from a folder.
func machinesOf(t *testing.T, folder string) (list []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), folder) {
			list = append(list, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list
}
