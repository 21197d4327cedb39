// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"weir/internal/base/nsthread"
	"weir/internal/host/dataplane/bpf"
)

// TestShares: pods whose runtime is NRI's own side of it, on the BPF qdisc of a real device, each
// of which sends all that it can: what arrives is the contract, by annotations alone.
func TestShares(t *testing.T) {
	if err := bpf.Supported(); err != nil {
		t.Skipf("skipped: needs a kernel with BPF qdiscs: %v", err)
	}
	if !alone(t) {
		return
	}
	const within = 0.01
	b, peer := realBed(t, "bpf", "20mbit")
	b.annotateNamespace("team", "weir.dev/weight", "2")
	// 20 Mbit/s less 5 and 1 are 14 for the weights 1, 2, 3 and the namespace's 2: 1.75 for
	// each.
	pods := []struct {
		name        string
		annotations []string
		want        float64 // Mbit/s on the wire
	}{
		{"shop/one", []string{"weir.dev/weight", "1"}, 1.75},
		{"shop/two", []string{"weir.dev/weight", "2"}, 3.5},
		{"shop/three", []string{"weir.dev/weight", "3"}, 5.25},
		{"shop/floor", []string{"weir.dev/weight", "1", "weir.dev/min", "5M"}, 5},
		{"shop/cap", []string{"weir.dev/weight", "1", "kubernetes.io/egress-bandwidth", "1M"}, 1},
		{"team/a", []string{"weir.dev/weight", "1"}, 0.875},
		{"team/b", []string{"weir.dev/weight", "3"}, 2.625},
	}
	arrived := receive(t, peer)
	for i, p := range pods {
		sandbox, path := realPod(t, i, p.name, p.annotations...)
		b.run(sandbox)
		flood(t, path)
	}
	b.until("the namespace is a group", func() bool {
		g, err := b.api.Group(t.Context(), "ns.team")
		return err == nil && len(g.Members) == 2
	})
	time.Sleep(2 * time.Second)
	before, begun := arrived(), time.Now()
	time.Sleep(5 * time.Second)
	after, took := arrived(), time.Since(begun)
	for i, p := range pods {
		from := netip.MustParseAddr(fmt.Sprintf("10.99.%d.2", i))
		got := float64(after[from]-before[from]) * 8 / 1e6 / took.Seconds()
		t.Logf("%-12s %6.3f Mbit/s of %6.3f, %+.2f %%", p.name, got, p.want, 100*(got/p.want-1))
		if got < p.want*(1-within) || got > p.want*(1+within) {
			t.Errorf("%s has %.3f Mbit/s, more than %.0f %% from %.3f", p.name, got, 100*within, p.want)
		}
	}
}

const (
	payload = 1000
	onWire  = payload + 8 + 20 + 14 // with the headers of UDP, IP and Ethernet
)

// receive counts what arrives in a namespace at port 9, in bytes on the wire by sender.
func receive(t *testing.T, path string) (arrived func() map[netip.Addr]uint64) {
	t.Helper()
	var conn *net.UDPConn
	err := nsthread.InPath(path, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 9})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	counts := map[netip.Addr]uint64{}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 2*payload); ; {
			_, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			mu.Lock()
			counts[from.Addr()] += onWire
			mu.Unlock()
		}
	}()
	return func() map[netip.Addr]uint64 {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counts)
	}
}

// flood sends some 17 Mbit/s from a namespace until the end of the test.
func flood(t *testing.T, path string) {
	t.Helper()
	var conn net.Conn
	err := nsthread.InPath(path, func() (err error) {
		conn, err = net.Dial("udp4", "10.98.0.2:9")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for packet := make([]byte, payload); ; time.Sleep(5 * time.Millisecond) {
			for range 10 {
				if _, err := conn.Write(packet); err != nil && t.Context().Err() != nil {
					return
				}
			}
		}
	}()
}
