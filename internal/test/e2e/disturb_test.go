// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// mendedWithin bounds the time for which another program's change may last.
const mendedWithin = 2 * time.Second

// disturbance is something that a person with tc, bpftool or rm does to a link.
type disturbance struct {
	name string
	do   func(b *bed, class uint16)
	said string // in the agent's log
}

// State that another program removes or changes under load is back within two seconds,
// and the agent says what it was.
func TestDisturbedLinkIsMended(t *testing.T) {
	b, a, ideal := contended(t, 1)
	class := a.workload("w2").Class
	for _, d := range disturbances() {
		t.Run(d.name, func(t *testing.T) {
			b := b.with(t)
			said := regexp.MustCompile(`another program changed what Weir set on the link.* what="(.*; )?` + d.said)
			before, logged := b.inKernel(class), len(a.log.String())
			d.do(b, class)
			// The log shows that it was seen: HTB's rates are mended five times a
			// second, before a test could look.
			took := await(t, 2*mendedWithin, "mended", func() error {
				if text := a.log.String()[logged:]; !said.MatchString(text) {
					return fmt.Errorf("the agent does not say %q, but %q", d.said, text)
				}
				if now := b.inKernel(class); now != before {
					return fmt.Errorf("it is now\n%s\nand was\n%s", now, before)
				}
				return nil
			})
			t.Logf("mended after %.1f s", took.Seconds())
			if took > mendedWithin {
				t.Errorf("took %v, want at most %v", took, mendedWithin)
			}
		})
	}
	b.warmUp()
	<-time.After(3 * time.Second) // the fallback learns anew what each class wants
	b.same("after all that", b.full(0, time.Second), ideal, unchanged)
}

func disturbances() []disturbance {
	list := []disturbance{
		{name: "root qdisc deleted", said: "the root qdisc is",
			do: func(b *bed, _ uint16) { b.host.run("tc qdisc del dev up0 root") }},
		{name: "root qdisc replaced", said: "the root qdisc is pfifo",
			do: func(b *bed, _ uint16) { b.host.run("tc qdisc replace dev up0 root handle 5: pfifo limit 77") }},
		{name: "marking of a port removed", said: "w2 is not marked",
			do: func(b *bed, _ uint16) { b.unmark("ports", "w2", "ingress") }},
	}
	if onBPF() {
		return append(list, inMaps()...)
	}
	return append(list, inHTB()...)
}

func inMaps() []disturbance {
	return []disturbance{
		{name: "class zeroed in the map", said: `class \d+ \(w2\) is gone`,
			do: func(b *bed, class uint16) { b.overwrite("class_config", uint32(class), clearAll) }},
		{name: "class changed in the map", said: `class \d+ \(w2\) was changed`,
			do: func(b *bed, class uint16) { b.overwrite("class_config", uint32(class), flipLowest) }},
		{name: "link changed in the map", said: "the configuration of the link was changed",
			do: func(b *bed, _ uint16) { b.overwrite("link_config", 0, flipLowest) }},
		{name: "pins removed", said: "the pin .* is gone",
			do: func(b *bed, _ uint16) { b.removePins() }},
	}
}

func inHTB() []disturbance {
	return []disturbance{
		{name: "marking of the link removed", said: "the marking program of the link is gone",
			do: func(b *bed, _ uint16) { b.unmark("egress", "up0", "egress") }},
		{name: "class changed", said: `class \d+ \(w2\) was changed`,
			do: func(b *bed, class uint16) {
				b.host.run(fmt.Sprintf("tc class change dev up0 parent 77e1:fffe classid 77e1:%x htb rate 12345bit ceil 12345bit", class))
			}},
		{name: "class deleted", said: `class \d+ \(w2\) is gone`,
			do: func(b *bed, class uint16) { b.host.run(fmt.Sprintf("tc class del dev up0 classid 77e1:%x", class)) }},
		{name: "queue of a class replaced", said: `the queue of class \d+ \(w2\) was changed`,
			do: func(b *bed, class uint16) {
				b.host.run(fmt.Sprintf("tc qdisc replace dev up0 parent 77e1:%x pfifo limit 3", class))
			}},
		{name: "classifier removed", said: "the classifier at the root is gone",
			do: func(b *bed, _ uint16) { b.host.run("tc filter del dev up0 parent 77e1:") }},
	}
}

func clearAll(value []byte)   { clear(value) }
func flipLowest(value []byte) { value[0] ^= 1 }

// fleeting matches the parts that differ between two equal states: ids of programs, numbers in the
// names of qdiscs and their handles, counters, and rates of HTB, which follow the traffic.
var fleeting = regexp.MustCompile(`\bid \d+|direct_packets_stat \d+|weir\d+( \w+:)?|(prio \d+ )?rate.*`)

// inKernel returns the state that Weir set, read past it: the host's traces, and the
// class's entry in the qdisc's map or in HTB.
func (b *bed) inKernel(class uint16) string {
	b.t.Helper()
	text := b.traces() + "\n" + b.host.run("tc filter show dev up0") + b.host.run("tc filter show dev up0 egress")
	text = fleeting.ReplaceAllString(text+b.host.run("tc class show dev up0"), "")
	for _, dir := range b.linkPins() {
		text += fmt.Sprintf("\nlink %x\nclass %x", b.entry(filepath.Join(dir, "link_config"), 0), b.entry(filepath.Join(dir, "class_config"), uint32(class)))
	}
	return text
}

// unmark takes a marking program off a device.
func (b *bed) unmark(folder, dev, hook string) {
	b.t.Helper()
	if b.tcxPins() {
		device, err := b.host.LinkByName(dev)
		b.host.must("look for "+dev, err)
		pins, _ := filepath.Glob(fmt.Sprintf("/sys/fs/bpf/weir/netns-*/%s/%d", folder, device.Attrs().Index))
		if len(pins) != 1 {
			b.t.Fatalf("pins of %s: %v", dev, pins)
		}
		if err := os.Remove(pins[0]); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	b.host.run("tc filter del dev " + dev + " " + hook)
}

// tcxPins says whether ports are marked by pinned links.
func (b *bed) tcxPins() bool {
	pins, _ := filepath.Glob("/sys/fs/bpf/weir/netns-*/ports/*")
	return len(pins) > 0
}

func (b *bed) linkPins() []string {
	dirs, _ := filepath.Glob("/sys/fs/bpf/weir/netns-*/links/up0-*")
	return dirs
}

func (b *bed) removePins() {
	b.t.Helper()
	for _, dir := range b.linkPins() {
		if err := os.RemoveAll(dir); err != nil {
			b.t.Fatal(err)
		}
	}
}

// entry reads an entry of a pinned map; nil if there is no such map.
func (b *bed) entry(pin string, key uint32) []byte {
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if err != nil {
		return nil
	}
	defer m.Close()
	value, err := m.LookupBytes(key)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// overwrite changes an entry of a pinned map of the link.
func (b *bed) overwrite(name string, key uint32, change func([]byte)) {
	b.t.Helper()
	for _, dir := range b.linkPins() {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err != nil {
			b.t.Fatal(err)
		}
		value, err := m.LookupBytes(key)
		if err == nil {
			change(value)
			err = m.Put(key, value)
		}
		m.Close()
		if err != nil {
			b.t.Fatal(err)
		}
	}
}
