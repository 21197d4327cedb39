// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"strings"

	"weir/internal/lab/cluster"
)

func (p *page) checkpoints(events []cluster.Event) {
	p.Line("\n## Figure 9: the checkpoint\n\nPrograms of stress-ng with 1 to 8 workers: time to freeze (runc and CRIU), size of the checkpoint, and what is left of it packed with\nzstd. The paper's time is of `docker checkpoint create`, and Docker copies what CRIU has written twice more.\n\n![Checkpoints](migration-checkpoints.svg)\n")
	if len(events) == 0 {
		p.Line("Missing: `lab/c-balancer/fig09.yaml` was not run.")
		return
	}
	p.Numbers("program", "workers", "freeze s", "checkpoint MB", "packed MB", "packed in s", "restored in s")
	for _, e := range events {
		program, workers, _ := strings.Cut(e.Label, " ")
		if program == ofMemory {
			program, workers = "vm of "+workers+" MB", "1"
		}
		freeze, _ := took(e, "freeze")
		thaw, _ := took(e, "thaw")
		sent, packed := took(e, "send checkpoint")
		p.Row(program, workers, seconds(freeze), megabytes(raw(e)), megabytes(packed), seconds(sent), seconds(thaw))
	}
	p.Line("")
	packed := func(programs string, pays bool) []string {
		var labels []string
		for _, e := range events {
			if program, _, _ := strings.Cut(e.Label, " "); strings.Contains(programs, program) {
				labels = append(labels, e.Label)
			}
		}
		return exceptions(labels, func(label string) bool {
			e := labelled(events, label)
			_, sent := took(*e, "send checkpoint")
			return (float64(sent) <= float64(raw(*e))/2) == pays
		})
	}
	p.claim("As in the paper, the size follows the memory: more of it, a larger checkpoint.", notGrowing(events))
	p.claim("Packing leaves half or less where memory is alike (rgb, cache, vm).", packed("rgb cache vm memory", true))
	p.claim("It leaves more than half of random numbers (bsearch, qsort).", packed("bsearch qsort", false))
}

// notGrowing are the runs whose checkpoint is no larger than that of the same program with
// fewer workers or less memory, in the order in which they were run.
func notGrowing(events []cluster.Event) (not []string) {
	last := map[string]int64{}
	for _, e := range events {
		program, _, _ := strings.Cut(e.Label, " ")
		if raw(e) <= last[program] {
			not = append(not, e.Label)
		}
		last[program] = raw(e)
	}
	return not
}

// ofMemory is the program that runs with different amounts of memory, not of workers.
const ofMemory = "memory"

// raw is the size of a checkpoint.
func raw(e cluster.Event) int64 {
	for _, s := range e.Migration.Steps {
		if s.Step == "freeze" {
			return s.Outcome.Raw
		}
	}
	return 0
}
