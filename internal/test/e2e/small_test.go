// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"weir/internal/core/policy"
)

// smallMemory is what a link with smallWorkloads workloads may take of the kernel's memory in
// BPF maps and programs, marking programs included, bytes.
const (
	smallMemory    = 4 << 20
	smallWorkloads = 64
)

// TestSmallProfile: a link of the profile small takes little of the kernel's memory, and is
// divided as any other.
func TestSmallProfile(t *testing.T) {
	b := newBed(t, 2, 1)
	var more strings.Builder
	for i := range smallWorkloads - len(b.boxes) {
		name := fmt.Sprintf("small%d", i)
		b.host.must("add "+name, b.host.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}))
		fmt.Fprintf(&more, "  - {name: %s, device: %s}\n", name, name)
	}
	b.configure(more.String() + "profile: small\nworkloads:\n  w2: {weight: 3}\n")
	before := bpfMemory(t, nil)
	a := b.start()
	b.steered(a)
	await(t, 10*time.Second, "all workloads active", func() error {
		list, err := a.Workloads(context.Background())
		active := 0
		for _, w := range list {
			if w.State == "active" {
				active++
			}
		}
		if err == nil && active != smallWorkloads+1 { // the host
			err = fmt.Errorf("%d active", active)
		}
		return err
	})
	used := bpfMemory(t, before)
	var sum uint64
	for _, bytes := range used {
		sum += bytes
	}
	t.Logf("%d maps and programs take %d bytes", len(used), sum)
	if sum > smallMemory {
		t.Errorf("a link with %d workloads takes %d bytes of the kernel's memory, more than %d: %v", smallWorkloads, sum, smallMemory, used)
	}
	b.flood(0, 1, 0.5)
	b.flood(0, 2, 0.9)
	b.warmUp()
	b.same("two of them send", b.full(0, time.Second), b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3}), unchanged)
}

// bpfMemory returns the bytes of each BPF map and program in the kernel but for those in
// without, by its kind and number.
func bpfMemory(t *testing.T, without map[string]uint64) map[string]uint64 {
	t.Helper()
	found := map[string]uint64{}
	take := func(name string, bytes uint64, known bool, err error) {
		if errors.Is(err, os.ErrNotExist) {
			return // gone since
		}
		if err != nil || !known {
			t.Fatalf("%s: %v; its size is known: %v", name, err, known)
		}
		if _, old := without[name]; !old {
			found[name] = bytes
		}
	}
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		bytes, known, err := mapMemory(id)
		take(fmt.Sprintf("map %d", id), bytes, known, err)
	}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		bytes, known, err := programMemory(id)
		take(fmt.Sprintf("program %d", id), bytes, known, err)
	}
	return found
}

func mapMemory(id ebpf.MapID) (bytes uint64, known bool, err error) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return 0, false, err
	}
	defer m.Close()
	info, err := m.Info()
	if err != nil {
		return 0, false, err
	}
	bytes, known = info.Memlock()
	return bytes, known, nil
}

func programMemory(id ebpf.ProgramID) (bytes uint64, known bool, err error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return 0, false, err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return 0, false, err
	}
	bytes, known = info.Memlock()
	return bytes, known, nil
}
