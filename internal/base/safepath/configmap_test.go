// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConfigMap: the open folder that kubelet mounts for a ConfigMap is passed, in the form that
// kubelet gives it, and no other open folder that is mounted.
func TestConfigMap(t *testing.T) {
	for _, c := range []struct {
		name, volume string
		flags        uintptr
		passed       bool
	}{
		{"as kubelet mounts it", "pods/1/volumes/kubernetes.io~configmap/config", unix.MS_RDONLY, true},
		{"writable", "pods/1/volumes/kubernetes.io~configmap/config", 0, false},
		{"folder of the host, read-only as for a service", "srv/config", unix.MS_RDONLY, false},
		{"folder inside of a ConfigMap", "pods/1/volumes/kubernetes.io~configmap/config/open", unix.MS_RDONLY, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			volume, at := p.top+"/"+c.volume, p.top+"/etc"
			must(t, errors.Join(os.MkdirAll(volume+"/..1", 0o755), os.Mkdir(at, 0o755), os.WriteFile(volume+"/..1/weir.yaml", []byte("links: []"), 0o644),
				os.Symlink("..1", volume+"/..data"), os.Symlink("..data/weir.yaml", volume+"/weir.yaml"), os.Chmod(volume, 0o777)))
			mounted(t, func() error {
				if err := unix.Mount(volume, at, "", unix.MS_BIND, ""); err != nil {
					return err
				}
				return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|c.flags, "")
			}, func() {
				if _, _, err := Read(at+"/weir.yaml", 100); (err == nil) != c.passed {
					t.Errorf("in the pod: %v", err)
				}
			})
			if _, _, err := Read(volume+"/weir.yaml", 100); err == nil {
				t.Error("passed on the node")
			}
		})
	}
}

// mounted calls use in a mount namespace in which mount has mounted.
func mounted(t *testing.T, mount func() error, use func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = mount()
		}
		if err == nil {
			use()
		}
		done <- err
	}()
	must(t, <-done)
}
