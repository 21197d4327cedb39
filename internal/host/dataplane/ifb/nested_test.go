// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"testing"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// What passes two ports on its way into a workload, as what a VLAN sends by the device below it,
// waits and counts once: in the class of the first.
func TestNestedPortsCountOnce(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b := newBed(t, kind, 1)
		inner := netnstest.New(t)
		b.Netns.Run("ip", "link", "add", "outer0", "type", "bridge")
		b.Netns.Run("ip", "addr", "add", "10.78.0.1/24", "dev", "outer0")
		b.Netns.Run("ip", "link", "set", "outer0", "up")
		b.Netns.Run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "eth0", "netns", inner.Name)
		b.Netns.Run("ip", "link", "set", "port0", "master", "outer0", "up")
		inner.Run("ip", "addr", "add", "10.78.0.2/24", "dev", "eth0")
		inner.Run("ip", "link", "set", "eth0", "up")
		inner.Run("ip", "route", "add", "default", "via", "10.78.0.1")
		b.Netns.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
		b.Server.Run("ip", "route", "add", "10.78.0.0/24", "via", "10.77.0.200")
		conn, err := device.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		s := b.state(100*mbit, plan.Class{Weight: 1}, plan.Class{Weight: 1})
		s.Ports = nil
		for i, name := range []string{"outer0", "port0"} {
			dev, err := conn.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			s.Ports = append(s.Ports, plan.Port{Device: name, Ifindex: dev.Index, Class: plan.ClassID(i + 1)})
		}
		backend := b.backend(false)
		b.Set(backend, s)
		b.Server.Run("ping", "-q", "-c", "1", "-W", "2", "10.78.0.2") // addresses are known from now on
		before := b.Counters(backend)
		b.Server.Run("ping", "-q", "-c", "40", "-i", "0.01", "10.78.0.2")
		after := b.Counters(backend)
		for id, want := range map[plan.ClassID]uint64{1: 40, 2: 0} {
			if n := after.Classes[id].SentPackets - before.Classes[id].SentPackets; n != want {
				t.Errorf("class %d: %d packets, want %d", id, n, want)
			}
		}
	})
}
