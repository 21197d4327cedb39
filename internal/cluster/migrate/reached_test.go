// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

const (
	probeEvery = 20 * time.Millisecond
	probeLimit = 100 * time.Millisecond
	// reachedWithin is the time after what a move reports in which a container has to be
	// reached.
	reachedWithin = time.Second
)

// probe asks an address for a connection to a closed port, from each of some places: the kernel
// there refuses it, without a limit to how often. The function returned ends that and returns
// the longest time without a refusal.
func (b *bed) probe(address string, places ...func(f func() error) error) func() time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	longest := make(chan time.Duration, 1)
	began := make(chan bool)
	go func() {
		var last time.Time
		var gap time.Duration
		for ctx.Err() == nil {
			if refused(address, places) {
				if now := time.Now(); last.IsZero() {
					last = now
					close(began)
				} else {
					gap, last = max(gap, now.Sub(last)), now
				}
			}
			time.Sleep(probeEvery)
		}
		longest <- max(gap, time.Since(last))
	}()
	select {
	case <-began:
	case <-time.After(10 * time.Second):
		b.t.Errorf("%s is never reached", address)
	}
	return func() time.Duration { cancel(); return <-longest }
}

// refused says whether a connection to an address is refused, seen from one of some places.
func refused(address string, places []func(f func() error) error) bool {
	for _, in := range places {
		var err error
		_ = in(func() error {
			_, err = net.DialTimeout("tcp", net.JoinHostPort(address, "9"), probeLimit)
			return nil
		})
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
	}
	return false
}

// lan is a kind of network, with the addresses of a silent server in it.
type lan struct {
	driver, subnet, gateway, address string
	both                             bool // by IPv6 as well
}

// Of IPv6, in each kind of network.
const subnet6, gateway6, address6 = "fd77::/64", "fd77::1", "fd77::50"

// TestSilentServersAreReached: a server that never speaks first is reached again when the move
// says so, there and back, by each family of addresses: from a host on its network where the
// network spans the nodes, else from the node on which it is. Where it arrives, the node knows
// its addresses at another MAC address.
func TestSilentServersAreReached(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	b.must(b.Command(t.Context(), "ip", "address", "add", gateway6+"/64", "dev", "br0", "nodad").Run())
	b.must(b.Command(t.Context(), "ip", "address", "add", "10.79.0.1/24", "dev", "br0").Run())
	for name, l := range map[string]lan{
		"macvlan by IPv4": {"macvlan", clustertest.Subnet, clustertest.SwitchAddress, "10.77.0.50", false},
		"macvlan by both": {"macvlan", clustertest.Subnet, clustertest.SwitchAddress, "10.77.0.50", true},
		"ipvlan by IPv4":  {"ipvlan", "10.79.0.0/24", "10.79.0.1", "10.79.0.50", false},
		"ipvlan by both":  {"ipvlan", "10.79.0.0/24", "10.79.0.1", "10.79.0.50", true},
		"bridge by IPv4":  {"bridge", "10.88.0.0/24", "10.88.0.1", "10.88.0.50", false},
		"bridge by both":  {"bridge", "10.88.0.0/24", "10.88.0.1", "10.88.0.50", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			if out, err := b.Command(t.Context(), "ip", "link", "add", "try", "link", "br0", "type", "ipvlan").CombinedOutput(); l.driver == "ipvlan" && err != nil {
				t.Skipf("skipped: this kernel has no ipvlan: %s", out)
			}
			_ = b.Command(t.Context(), "ip", "link", "delete", "try").Run() // if it was made
			b.silentServer(l)
			for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
				b.moveSilent(l, way[0], way[1])
			}
			b.must(b.Node("a").Remove(t.Context(), "silent"))
			for _, n := range b.Nodes() {
				if l.driver == "bridge" {
					b.must(n.Remove(t.Context(), "other"))
				}
				b.must(n.Docker().NetworkRemove(t.Context(), "lan"))
			}
		})
	}
}

// silentServer starts a container with fixed addresses in a network of both nodes. With IPv6 the
// kernel speaks for it when its device comes up.
func (b *bed) silentServer(l lan) {
	b.t.Helper()
	ipam := []network.IPAMConfig{{Subnet: l.subnet, Gateway: l.gateway}}
	address := &network.EndpointIPAMConfig{IPv4Address: l.address}
	if l.both {
		ipam = append(ipam, network.IPAMConfig{Subnet: subnet6, Gateway: gateway6})
		address.IPv6Address = address6
	}
	options := map[string]string{"parent": "eth0"}
	if l.driver == "bridge" {
		options = map[string]string{"com.docker.network.bridge.name": "lan0"}
	}
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(b.t.Context(), "lan", network.CreateOptions{
			Driver: l.driver, Options: options, EnableIPv6: new(l.both), IPAM: &network.IPAM{Config: ipam},
		})
		b.must(err)
	}
	if l.driver == "bridge" {
		// A bridge that gets its first port looks for a second or two whether its IPv6
		// addresses are taken (duplicate address detection), and its node reaches nothing
		// meanwhile.
		for _, n := range b.Nodes() {
			b.start(n.Name, "other", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "lan" })
		}
	}
	cli := b.Node("a").Docker()
	made, err := cli.ContainerCreate(b.t.Context(),
		&container.Config{Image: clustertest.CounterImage, StopSignal: "SIGKILL"}, &container.HostConfig{NetworkMode: "lan"},
		&network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"lan": {IPAMConfig: address}}}, nil, "silent")
	b.must(err)
	b.must(cli.ContainerStart(b.t.Context(), made.ID, container.StartOptions{}))
	b.waitCount("a", "silent", 2)
}

// moveSilent moves it, while hosts that reach it ask for it.
func (b *bed) moveSilent(l lan, from, to string) {
	b.t.Helper()
	places := []func(func() error) error{b.Inside}
	if l.driver == "bridge" {
		places = nil
		for _, n := range b.Nodes() {
			places = append(places, func(f func() error) error { return b.inside(n, f) })
		}
		for _, address := range []string{l.address, address6} {
			_ = b.Node(to).Command(b.t.Context(), "ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "lan0", "nud", "stale").Run() // IPv6 may be off
		}
	}
	probes := map[string]func() time.Duration{"IPv4": b.probe(l.address, places...)}
	if l.both {
		probes["IPv6"] = b.probe(address6, places...)
	}
	time.Sleep(300 * time.Millisecond)
	r := b.migrate("silent", from, to, migrate.Request{})
	if r.State != wire.MoveDone {
		b.t.Fatalf("%s: %s%s", r.State, r.Err, steps(r))
	}
	for _, s := range r.Steps {
		if strings.Contains(s.Outcome.Note, "announce") {
			b.t.Errorf("%s: %s", s.Step, s.Outcome.Note)
		}
	}
	time.Sleep(2 * reachedWithin)
	for name, end := range probes {
		gap := end()
		b.t.Logf("%s to %s by %s: not reached for %v, reported are %v", from, to, name, gap.Round(time.Millisecond), r.Downtime.Round(time.Millisecond))
		if gap > r.Downtime+reachedWithin {
			b.t.Errorf("%s to %s by %s: not reached for %v, reported are %v", from, to, name, gap, r.Downtime)
		}
	}
}
