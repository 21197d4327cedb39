// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/host/dataplane/device/netnstest"
)

// TestCarrier: a link that is down or has no carrier is told from one that can send.
func TestCarrier(t *testing.T) {
	if os.Getenv("WEIR_CARRIER") == "" {
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCarrier$", "-test.v")
		netnstest.Alone(t, run)
		run.Env = append(os.Environ(), "WEIR_CARRIER=1")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	command(t, "ip link add up0 type veth peer name other0")
	carriers := newCarriers()
	expect := func(when, want string) {
		t.Helper()
		var got string
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) { // the kernel tells of a carrier up to a second later
			if got = carriers.down("up0"); (got == "") == (want == "") && strings.Contains(got, want) {
				return
			}
		}
		t.Errorf("%s: %q, want %q", when, got, want)
	}
	expect("as made", "is down")
	command(t, "ip link set up0 up")
	expect("with the other end down", "no carrier")
	command(t, "ip link set other0 up")
	expect("with both ends up", "")
	command(t, "ip link del up0")
	expect("gone", "")
	command(t, "ip link set lo up")
	if got := carriers.down("lo"); got != "" {
		t.Errorf("a device that knows of no carrier: %s", got)
	}
}
