// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/host/discover/machine/machinetest"
	"weir/internal/test/boundtest"
)

func FuzzParseDomain(f *testing.F) {
	f.Add([]byte(machinetest.Domain))
	boundtest.Seeds[[]byte](f, bound.Machine, "<domain>", "<domain><name>")
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			machine, devices := parseStatus(text)
			found := map[string]NIC{}
			note(found, machine, devices)
			for device, n := range found {
				if n.Machine == "" || n.Index >= len(devices) || device == "" {
					t.Errorf("%q is %+v", device, n)
				}
			}
		})
	})
}

func FuzzParseQEMU(f *testing.F) {
	f.Add([]byte("qemu-system-x86_64\x00-name\x00guest=db,debug-threads=on\x00-nic\x00tap,ifname=tap0\x00"))
	f.Add([]byte("kvm\x00-name\x00\x00-netdev"))
	boundtest.Seeds[[]byte](f, bound.Machine, "kvm\x00-netdev\x00")
	f.Fuzz(func(t *testing.T, cmdline []byte) {
		boundtest.Hold(t, func() {
			machine, devices := parseQEMU(cmdline)
			if strings.Contains(machine, ",") || strings.Contains(strings.Join(devices, ""), ",") {
				t.Errorf("%q, %q", machine, devices)
			}
		})
	})
}

// TestManyTaps: of a command line that names thousands of taps few are looked at: the kernel is
// asked about each.
func TestManyTaps(t *testing.T) {
	machine, devices := parseQEMU([]byte("kvm\x00-name\x00db\x00-netdev\x00" + strings.Repeat("ifname=a,", bound.Machine/9-10) + "\x00"))
	if machine != "db" || len(devices) != mostNICs {
		t.Errorf("%q with %d devices", machine, len(devices))
	}
}
