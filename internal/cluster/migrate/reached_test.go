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
	"weir/internal/cluster/wire"
)

const (
	probeEvery = 20 * time.Millisecond
	probeLimit = 100 * time.Millisecond
	// reachedWithin is the time after what a move reports in which a container has to be reached.
	reachedWithin = time.Second
)

// probe asks an address for a connection to a closed port, from the switch:
// its kernel refuses it, without a limit to how often. The function returned ends that and
// returns the longest time without a refusal.
func (b *bed) probe(address string) func() time.Duration {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	longest := make(chan time.Duration, 1)
	began := make(chan bool)
	go func() {
		var last time.Time
		var gap time.Duration
		for ctx.Err() == nil {
			var err error
			_ = b.Inside(func() error {
				_, err = net.DialTimeout("tcp", net.JoinHostPort(address, "9"), probeLimit)
				return nil
			})
			if errors.Is(err, syscall.ECONNREFUSED) {
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

// TestSilentServersAreReached: a server with an address of its own that never speaks first is
// reached again when the move says so, by IPv4 alone and by both, there and back.
func TestSilentServersAreReached(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	b.must(b.Command(t.Context(), "ip", "address", "add", "fd77::1/64", "dev", "br0", "nodad").Run())
	for name, both := range map[string]bool{"IPv4": false, "both": true} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			b.silentServer(both)
			for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
				b.moveSilent(way[0], way[1], both)
			}
			b.must(b.Node("a").Remove(t.Context(), "silent"))
			for _, n := range b.Nodes() {
				b.must(n.Docker().NetworkRemove(t.Context(), "lan"))
			}
		})
	}
}

// silentServer starts a container with fixed addresses on a macvlan network of both nodes. With
// IPv6 the kernel speaks for it when its device comes up.
func (b *bed) silentServer(both bool) {
	b.t.Helper()
	ipam := []network.IPAMConfig{{Subnet: clustertest.Subnet, Gateway: clustertest.SwitchAddress}}
	address := &network.EndpointIPAMConfig{IPv4Address: "10.77.0.50"}
	if both {
		ipam = append(ipam, network.IPAMConfig{Subnet: "fd77::/64", Gateway: "fd77::1"})
		address.IPv6Address = "fd77::50"
	}
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(b.t.Context(), "lan", network.CreateOptions{
			Driver: "macvlan", Options: map[string]string{"parent": "eth0"}, EnableIPv6: new(both), IPAM: &network.IPAM{Config: ipam},
		})
		b.must(err)
	}
	cli := b.Node("a").Docker()
	made, err := cli.ContainerCreate(b.t.Context(),
		&container.Config{Image: clustertest.CounterImage, StopSignal: "SIGKILL"}, &container.HostConfig{NetworkMode: "lan"},
		&network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"lan": {IPAMConfig: address}}}, nil, "silent")
	b.must(err)
	b.must(cli.ContainerStart(b.t.Context(), made.ID, container.StartOptions{}))
	b.waitCount("a", "silent", 2)
}

// moveSilent moves it, while a host on the network asks for it.
func (b *bed) moveSilent(from, to string, both bool) {
	b.t.Helper()
	probes := map[string]func() time.Duration{"IPv4": b.probe("10.77.0.50")}
	if both {
		probes["IPv6"] = b.probe("fd77::50")
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
