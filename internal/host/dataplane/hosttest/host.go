// SPDX-License-Identifier: Apache-2.0

// Package hosttest builds a small host on the real kernel for tests of data planes:
// containers behind a bridge, and an uplink up0 to a server.
//
//	c1: eth0 ── c1 ┐
//	c2: eth0 ── c2 ┤ br0 ── up0 ── eth0 :server
//
// The test's goroutine is "the host". Everything goes when the test ends.
package hosttest

import (
	"fmt"
	"log/slog"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
)

// Mbit is a megabit per second.
const Mbit = policy.Rate(1e6)

// Addresses, in a network of 24 bits; container i (from 1) has 10.77.0.i.
const (
	ServerAt = "10.77.0.254"
	HostAt   = "10.77.0.200"
)

// Host is a host with its workloads and the other end of its link.
type Host struct {
	T      testing.TB
	Netns  *netnstest.Netns
	Server *netnstest.Netns
	Boxes  []*netnstest.Netns // of the containers
	Ports  []plan.Port        // of Boxes, with classes 1, 2, ...
	Opts   dataplane.Options
}

// New makes a host with some containers and moves the test's goroutine into it.
func New(t testing.TB, containers int) *Host {
	t.Helper()
	h := &Host{T: t, Netns: netnstest.Enter(t), Server: netnstest.New(t), Opts: netnstest.Options(t)}
	h.Netns.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6") // no packets but the test's
	h.Netns.Run("ip", "link", "add", "br0", "type", "bridge")
	h.Netns.Run("ip", "addr", "add", HostAt+"/24", "dev", "br0")
	h.Netns.Run("ip", "link", "set", "br0", "up")
	h.Plug("up0", h.Server, ServerAt)
	conn, err := device.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range containers {
		box, name := netnstest.New(t), fmt.Sprintf("c%d", i+1)
		h.Boxes = append(h.Boxes, box)
		h.Plug(name, box, fmt.Sprintf("10.77.0.%d", i+1))
		dev, err := conn.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Ports = append(h.Ports, plan.Port{Device: dev.Name, Ifindex: dev.Index, Class: plan.ClassID(i + 1)})
	}
	return h
}

// Plug joins box to the bridge by a device of this name.
func (h *Host) Plug(name string, box *netnstest.Netns, address string) {
	h.T.Helper()
	h.Netns.Run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", box.Name)
	h.Netns.Run("ip", "link", "set", name, "master", "br0", "up")
	box.Run("ip", "link", "set", "eth0", "up")
	box.Run("ip", "addr", "add", address+"/24", "dev", "eth0")
}

// Log is what a backend logs, in the test's output.
func (h *Host) Log() *slog.Logger { return slog.New(slog.NewTextHandler(h.T.Output(), nil)) }

// State is a link with the host's class and the given ones, as classes 1, 2, ... of
// the containers. There may be more classes than containers.
func (h *Host) State(link plan.Link, classes ...plan.Class) plan.State {
	link.Device, link.Reserve, link.Scheduler = "up0", 1, plan.SchedulerFair
	s := plan.State{Link: link, Classes: []plan.Class{{ID: 0, Name: "host", Weight: 1}}}
	for i, c := range classes {
		c.ID, c.Name = plan.ClassID(i+1), fmt.Sprintf("c%d", i+1)
		s.Classes = append(s.Classes, c)
		if i < len(h.Ports) {
			s.Ports = append(s.Ports, h.Ports[i])
		}
	}
	return s
}

// Set has a backend put a state into force.
func (h *Host) Set(b dataplane.Backend, s plan.State) {
	h.T.Helper()
	if err := b.Set(h.T.Context(), s); err != nil {
		h.T.Fatal(err)
	}
}

// Counters asks a backend.
func (h *Host) Counters(b dataplane.Backend) dataplane.LinkCounters {
	h.T.Helper()
	s, err := b.Counters()
	if err != nil {
		h.T.Fatal(err)
	}
	return s
}
