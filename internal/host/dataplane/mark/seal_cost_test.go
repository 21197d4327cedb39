// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	cgroups "weir/internal/base/cgroup"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// BenchmarkSeal says what the program at lo costs a packet of a local TCP connection, to the
// loopback address and to another: of no workload, and of one. It takes turns with and without the
// program. In a VM in virtual time a nanosecond is an instruction. At most 5 % are allowed:
//
//	go test -c ./internal/host/dataplane/mark
//	vm/run --virtual-time --copy mark.test -- ./mark.test -test.run - -test.bench Seal -test.benchtime 1x
func BenchmarkSeal(b *testing.B) {
	netnstest.Enter(b).Run("ip", "addr", "add", "10.9.9.1/32", "dev", "lo")
	m, err := New(netnstest.Options(b), slog.New(slog.DiscardHandler))
	fatal(b, err)
	defer m.Close()
	lo, err := m.conn.Lookup("lo")
	fatal(b, err)
	top := cgroups.Mounts()[0]
	// Workloads at three depths, as units and containers have them: the host pays three
	// searches.
	one := filepath.Join(top, fmt.Sprintf("weir-cost-%d", os.Getpid()))
	state := plan.State{Classes: []plan.Class{{ID: 0, Weight: 1}, {ID: 6, Weight: 1}}}
	groups := map[string]string{"host": filepath.Join(one, "host", "deep"), "workload": filepath.Join(one, "work", "deep")}
	for _, path := range []string{one, filepath.Dir(groups["host"]), groups["host"], filepath.Dir(groups["workload"]), groups["workload"], one + "-1", filepath.Join(one, "2")} {
		fatal(b, os.Mkdir(path, 0o755))
		defer os.Remove(path)
	}
	for _, path := range []string{groups["workload"], one + "-1", filepath.Join(one, "2")} {
		state.Ports = append(state.Ports, plan.Port{Cgroup: path, Class: 6})
	}
	sockets, err := m.Sockets(state)
	fatal(b, err)
	b.ReportMetric(0, "ns/op")
	text, err := os.ReadFile("/proc/self/cgroup")
	fatal(b, err)
	home := filepath.Join(top, cgroups.Of(string(text)))
	enter := func(group string) {
		fatal(b, os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, os.Getpid()), 0))
	}
	defer enter(home)
	for _, bench := range []struct {
		name, group string
		at          [4]byte
	}{
		{"host-loopback", groups["host"], [4]byte{127, 0, 0, 1}}, {"workload-loopback", groups["workload"], [4]byte{127, 0, 0, 1}},
		{"host", groups["host"], [4]byte{10, 9, 9, 1}}, {"workload", groups["workload"], [4]byte{10, 9, 9, 1}},
	} {
		enter(bench.group)
		exchange := marktest.Exchange(b, bench.at)
		var with, without []float64
		for range 40 {
			fatal(b, sealer{m}.set(lo, plan.State{}, Sockets{}))
			without = append(without, marktest.Settled(exchange))
			fatal(b, sealer{m}.attachTo(lo, state, sockets))
			with = append(with, marktest.Settled(exchange))
		}
		// The least of several: the rest has other work of the kernel in it.
		bare, sealed := slices.Min(without), slices.Min(with)
		b.ReportMetric(bare, bench.name+"-ns/packet")
		b.ReportMetric(sealed-bare, bench.name+"-more-ns/packet")
		if part := (sealed - bare) / bare; part > 0.05 {
			b.Errorf("%s: sealing takes %.1f %% of a packet", bench.name, 100*part)
		}
	}
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
