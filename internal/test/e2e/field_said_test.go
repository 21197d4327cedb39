// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// One max of 3 Mbit/s up and one of 17 down, given by weir.yaml and by weir set, are these
// directions and this unit on the wire, in every answer of the program and in the metrics.
func TestDirectionsAndUnitsEverywhere(t *testing.T) {
	b := newBed(t, 2, 1)
	receiver := launch(b.boxes[1], "receive")
	receiver.read()
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "workloads:\n  w1: {max: 3mbit, ingress: {max: 17mbit}}\n")
	a := b.start()
	b.steered(a)
	b.oneLine("what means two rates", b.cli("set", "w2", "--max", "375KBps"), 2, "3000kbit", "375kbit")
	b.weir("set", "w2", "--max", "3000kbit", "--ingress-max", "17000kbit")
	for _, name := range []string{"w1", "w2"} {
		b.answers(name, 3e6, 17e6)
	}
	up := b.flood(0, 2, 0.3)
	down := launch(b.srv, "udp", fmt.Sprintf("%s:%d", workloadAt(0, 2).ip, udpPort), "900", fmt.Sprint(uint64(b.capacity)), "40", fmt.Sprint(payload), "0")
	b.warmUp()
	count := func() (up1, down1 uint64) {
		return b.arrivalsOf([]flow{up})[0].Packets, receiver.arrivals()[900].Packets
	}
	up0, down0 := count()
	began := time.Now()
	time.Sleep(4 * time.Second)
	up1, down1 := count()
	rate := func(packets uint64) float64 { return float64(packets) * frame * 8 / time.Since(began).Seconds() / 1e6 }
	t.Logf("received: %.2f Mbit/s up, %.2f down", rate(up1-up0), rate(down1-down0))
	if u, d := rate(up1-up0), rate(down1-down0); u < 2.7 || u > 3.3 || d < 15.3 || d > 18.7 {
		t.Errorf("%.2f Mbit/s up and %.2f down, want 3 and 17", u, d)
	}
	b.healthy()
	for _, l := range a.workload("w2").Links {
		if want := map[string]float64{"egress": 3e6, "ingress": 17e6}[l.Direction]; l.RateBps < 0.8*want || l.RateBps > 1.2*want {
			t.Errorf("weir says %.0f bit/s of %s, want %.0f", l.RateBps, l.Direction, want)
		}
	}
	down.stop()
}

// answers fails unless all answers say these maxes of a workload, in bit/s.
func (b *bed) answers(name string, up, down uint64) {
	b.t.Helper()
	want := map[string]uint64{"egress": up, "ingress": down}
	for _, l := range b.get()[name].Links {
		if l.MaxBps != want[l.Direction] {
			b.t.Errorf("weir get: %s of %s has the max %d, want %d", l.Direction, name, l.MaxBps, want[l.Direction])
		}
	}
	metrics := b.host.run("curl -sS --unix-socket " + b.socket() + " http://weir/metrics")
	for direction, bps := range want {
		found := false
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "weir_class_max_bits_per_second{") && strings.Contains(line, `direction="`+direction+`"`) && strings.Contains(line, `workload="`+name+`"`) {
				var value float64
				_, err := fmt.Sscan(line[strings.LastIndexByte(strings.TrimSpace(line), ' '):], &value)
				found = err == nil && value == float64(bps)
			}
		}
		if !found {
			b.t.Errorf("metrics: no max of %d for %s of %s", bps, direction, name)
		}
	}
	for _, args := range [][]string{{"get", name}, {"set", name, "--weight", "2", "--dry-run"}} {
		text := b.weir(args...)
		if args[0] == "get" && (!strings.Contains(text, "3 Mbit/s") || !strings.Contains(text, "17 Mbit/s")) {
			b.t.Errorf("weir %s says\n%s", strings.Join(args, " "), text)
		}
	}
}

// While the agent cannot mend it (its BPF file system is read-only), a part of a link that is gone
// is named among the problems of the link within two seconds (and a third on a busy machine).
func TestWhatCannotBeMendedIsSaid(t *testing.T) {
	for _, part := range []struct {
		name string
		find func(b *bed) (remove func())
	}{
		{"program of a port", func(b *bed) func() { return b.programOf("ports", "w1") }},
		{"root qdisc", func(b *bed) func() { return func() { b.host.run("tc qdisc del dev up0 root") } }},
		{"device of what is received", func(b *bed) func() { return func() { b.host.delete("weir-in-up0") } }},
	} {
		t.Run(part.name, func(t *testing.T) {
			b := newBed(t, 1, 1)
			b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "")
			a := b.start()
			b.steered(a)
			b.well(a)
			remove := part.find(b)
			b.readOnly(true)
			t.Cleanup(func() { b.readOnly(false) })
			remove()
			limit := said + time.Second
			if emulated() {
				limit = 40 * time.Second // a new attempt has the kernel verify programs, for seconds
			}
			took := await(t, limit, part.name+" is named", func() error {
				status, err := a.Status(context.Background())
				if err != nil {
					return err
				}
				for _, p := range status.Problems {
					if strings.Contains(p.String(), "up0") {
						return nil
					}
				}
				return fmt.Errorf("problems %v, log %s", status.Problems, a.log.String())
			})
			t.Logf("said after %v", took)
			b.readOnly(false)
			await(t, 30*time.Second, "well again", func() error {
				status, err := a.Status(context.Background())
				if err == nil && len(status.Problems) > 0 {
					err = fmt.Errorf("%v", status.Problems)
				}
				return err
			})
		})
	}
}

// readOnly has the BPF file system take nothing new, or all again.
func (b *bed) readOnly(yes bool) {
	flags := uintptr(unix.MS_REMOUNT)
	if yes {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", flags, ""); err != nil {
		b.t.Fatal(err)
	}
}

// programOf finds the program of a device, and returns what takes it off and leaves its pin.
func (b *bed) programOf(folder, dev string) (detach func()) {
	b.t.Helper()
	pins, _ := filepath.Glob(fmt.Sprintf("/sys/fs/bpf/weir/netns-*/%s/%d", folder, b.host.device(dev).Attrs().Index))
	if len(pins) != 1 {
		b.t.Fatalf("pins of %s: %v", dev, pins)
	}
	at, err := link.LoadPinnedLink(pins[0], nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return func() {
		b.t.Helper()
		defer at.Close()
		if err := at.Detach(); err != nil {
			b.t.Fatal(err)
		}
	}
}
