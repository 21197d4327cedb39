// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
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
	spec, err := loadQdisc()
	must(t, err)
	schedulers := schedulersOf(spec.Types)
	for _, name := range slices.Sorted(maps.Keys(schedulers)) {
		must(t, spec.Variables[qdiscVarScheduler].Set(uint32(schedulers[name])))
		coll, err := ebpf.NewCollection(spec.Copy())
		must(t, err)
		for _, program := range slices.Sorted(maps.Keys(coll.Programs)) {
			info, err := coll.Programs[program].Info()
			must(t, err)
			n, ok := info.VerifiedInstructions()
			t.Logf("%s: %s: %d instructions verified", name, program, n)
			if !ok || n == 0 || n > verifierLimit/2 {
				t.Errorf("%s: %s: the verifier looks at %d instructions, half of its limit is %d", name, program, n, verifierLimit/2)
			}
		}
		coll.Close()
	}
}
