// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"slices"
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
