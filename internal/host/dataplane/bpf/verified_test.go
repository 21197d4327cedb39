// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
)

// verifierLimit is how many instructions the verifier looks at before it refuses a program
// (BPF_COMPLEXITY_LIMIT_INSNS).
const verifierLimit = 1000000

// TestVerifiedInstructions says how many instructions the verifier looks at in each program,
// with each scheduler. Half of what it permits is left for the kernels to come.
func TestVerifiedInstructions(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	for _, small := range []bool{false, true} {
		spec, err := buildFor(small).spec()
		must(t, err)
		for name, number := range schedulersOf(spec.Types) {
			t.Run(fmt.Sprintf("%s,small=%t", name, small), func(t *testing.T) { verified(t, spec, number) })
		}
	}
}

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types shards ../../../../bpf/qdisc.bpf.c -- -DWEIR_SHARDS

// TestVerifiedShards does the same for a link that several shards divide.
func TestVerifiedShards(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	const shards = 8
	spec, err := loadShards()
	must(t, err)
	must(t, spec.Variables[shardsVarShards].Set(uint32(shards)))
	classes := spec.Maps[shardsMapClassConfig].MaxEntries
	for name, n := range map[string]uint32{
		shardsMapShardHeads: shards, shardsMapShardGrants: shards, shardsMapShardSums: classes,
		shardsMapShardLines: shards * classes, shardsMapShardCells: shards * classes,
	} {
		spec.Maps[name].MaxEntries = n
	}
	verified(t, spec, uint64(schedulersOf(spec.Types)["fair"]))
}

// TestVerifiedOnce loads the qdisc for four links. The kernel verifies the programs before it says
// that a name is taken; the fourth load was verified four times.
func TestVerifiedOnce(t *testing.T) {
	if err := Supported(); err != nil {
		t.Skipf("needs a kernel with BPF qdiscs (vm/run has one): %v", err)
	}
	var took []time.Duration
	names := map[string]bool{}
	for range 4 {
		begin := time.Now()
		o, err := load(buildFor(true), "fair", plan.Carrier{}, nil)
		must(t, err)
		defer o.close()
		took, names[o.kind] = append(took, time.Since(begin)), true
	}
	t.Logf("loads take %v", took)
	if took[3] > 2*took[0] || len(names) != 4 {
		t.Errorf("the fourth load takes %v, the first %v; names %v", took[3], took[0], names)
	}
}

func verified(t *testing.T, spec *ebpf.CollectionSpec, scheduler uint64) {
	must(t, spec.Variables[qdiscVarScheduler].Set(uint32(scheduler)))
	coll, err := ebpf.NewCollection(spec.Copy())
	must(t, err)
	defer coll.Close()
	for _, program := range slices.Sorted(maps.Keys(coll.Programs)) {
		info, err := coll.Programs[program].Info()
		must(t, err)
		n, ok := info.VerifiedInstructions()
		t.Logf("%s: %d instructions verified", program, n)
		if !ok || n == 0 || n > verifierLimit/2 {
			t.Errorf("%s: the verifier looks at %d instructions, half of its limit is %d", program, n, verifierLimit/2)
		}
	}
}
