// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cgroups "weir/internal/cgroup"
)

// TestOwnCgroup: the agent's cgroup is known from the top of the hierarchy. From a cgroup
// namespace, as in a pod, its path begins elsewhere; taken for one from the top it would be the
// root, and every socket made there might choose its class.
func TestOwnCgroup(t *testing.T) {
	const inside = "WEIR_OWN_CGROUP"
	if os.Getenv(inside) != "" {
		fmt.Println("own", ownCgroup())
		return
	}
	hierarchy := cgroups.Read()
	if hierarchy.Trouble() != "" {
		t.Skip("skipped: no cgroups of version 2 here")
	}
	group := filepath.Join(hierarchy.Root, "weir-own-test")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(group)
	for how, want := range map[string]string{
		"":                 fmt.Sprint("own ", cgroupID(t, group)),
		"unshare --cgroup": "own 0",
	} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("echo $$ >%s/cgroup.procs && exec %s %s -test.run '^TestOwnCgroup$'", group, how, os.Args[0]))
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(string(out), "\n"); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", how, out, err, want)
		}
	}
}
