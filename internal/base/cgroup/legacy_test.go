// SPDX-License-Identifier: Apache-2.0

package cgroup

import "testing"

func TestControllers(t *testing.T) {
	got := controllers("cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup2 /unified cgroup2 rw 0 0\n" +
		"cgroup /other cgroup rw,cpu 0 0\ncgroup /my\\040memory cgroup rw,memory 0 0\nnone\n")
	for controller, want := range map[string]string{
		"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/my memory", "blkio": "",
	} {
		if got[controller] != want {
			t.Errorf("%s: %q, want %q", controller, got[controller], want)
		}
	}
}

func TestOfController(t *testing.T) {
	const text = "9:name=systemd:/\n2:cpu,cpuacct:/docker/ab\n3:memory:/docker/ab (deleted)\n0::/x\ncut"
	for controller, want := range map[string]string{"cpuacct": "/docker/ab", "cpu": "/docker/ab", "memory": "/docker/ab", "blkio": "", "": "/x"} {
		if got := OfController(text, controller); got != want {
			t.Errorf("%s: %q, want %q", controller, got, want)
		}
	}
}

func TestOfContainer(t *testing.T) {
	for path, want := range map[string]string{
		"/docker/abc":                          "/docker/abc",
		"/docker/abc/init.scope":               "/docker/abc",
		"/system.slice/docker-abc.scope/a/abc": "/system.slice/docker-abc.scope",
		"/docker/def":                          "",
		"/../docker/abc":                       "",
	} {
		if got := OfContainer(path, "abc"); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
