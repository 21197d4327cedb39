// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMounts(t *testing.T) {
	for _, tt := range []struct {
		name, table string
		want        []string
	}{
		{"unified", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0\n", []string{"/sys/fs/cgroup"}},
		{"hybrid", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", []string{"/sys/fs/cgroup/unified"}},
		{"version 1", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", nil},
		{"blanks and cut lines", "none /a\\040b\\134c cgroup2 rw 0 0\nnone\nnone /x\\04 cgroup2", []string{"/a b\\c", "/x\\04"}},
	} {
		if got := mounts(tt.table); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/nginx.service\n":                    "/system.slice/nginx.service",
		"2:cpu:/docker/ab\n1:name=systemd:/docker/ab\n0::/\n": "/",
		"2:cpu:/docker/ab\n":                                  "",
		"0::/system.slice/gone.service (deleted)\n":           "/system.slice/gone.service",
		"": "",
		"1:name=systemd:/a\n0::/machine.slice/x\\x2dy.scope/container\n": "/machine.slice/x\\x2dy.scope/container",
	} {
		if got := Of(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// tree makes folders in the place of a cgroup2 mount.
func tree(t *testing.T, folders ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range folders {
		if err := os.MkdirAll(filepath.Join(root, f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestUnits(t *testing.T) {
	root := tree(t, "init.scope", "system.slice/nginx.service", "system.slice/nginx.socket", "docker/ab/system.slice/nginx.service",
		"system.slice/system-worker.slice/worker@1.service/system.slice/nginx.service", "user.slice/user-0.slice/user@0.service/app.slice")
	units, searched := Hierarchy{Root: root}.Units(func(unit string) bool { return strings.HasPrefix(unit, "nginx.") || unit == "worker@1.service" })
	want := map[string]string{
		"nginx.service":    root + "/system.slice/nginx.service",
		"nginx.socket":     root + "/system.slice/nginx.socket",
		"worker@1.service": root + "/system.slice/system-worker.slice/worker@1.service",
	}
	if !maps.Equal(units, want) {
		t.Errorf("%v", units)
	}
	if want := []string{root, root + "/system.slice", root + "/system.slice/system-worker.slice", root + "/user.slice", root + "/user.slice/user-0.slice"}; !slices.Equal(searched, want) {
		t.Errorf("looked into %q", searched)
	}
}

func TestTrouble(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		h          Hierarchy
	}{
		{"not mounted", "no cgroups of version 2", Hierarchy{Legacy: true}},
		{"empty beside version 1", "in cgroups of version 1, which cannot mark packets; boot with systemd.unified_cgroup_hierarchy=1", Hierarchy{tree(t), true}},
		{"hybrid", "", Hierarchy{tree(t, "system.slice"), true}},
		{"empty without version 1", "", Hierarchy{tree(t), false}},
	} {
		if got := tt.h.Trouble(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
