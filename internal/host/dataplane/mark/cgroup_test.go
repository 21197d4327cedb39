// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// without takes a capability from the test's thread until the test ends.
func without(t *testing.T, capability uint) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now [2]unix.CapUserData
	if err := unix.Capget(&header, &now[0]); err != nil {
		t.Fatal(err)
	}
	fewer := now
	fewer[capability/32].Effective &^= 1 << (capability % 32)
	if err := unix.Capset(&header, &fewer[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Capset(&header, &now[0]); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}
