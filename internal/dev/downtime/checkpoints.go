// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"strings"
	"time"

	"weir/internal/lab/cluster"
)

func (p *page) checkpoints(events []cluster.Event) {
	p.Line("\n## Figure 9: the checkpoint\n\nPrograms of stress-ng with 1 to 8 workers: time to freeze (runc and CRIU), size of the checkpoint, and what is left of it packed with\nzstd. The paper's time is of `docker checkpoint create`, and Docker copies what CRIU has written twice more.\n\n![C-Balancer, figure 9(a): time of the checkpoint against workers](migration-checkpoints.svg)\n\n![C-Balancer, figure 9(b): size of qsort's checkpoint against workers](migration-sizes.svg)\n")
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
	p.Line("\nEach is one run. `vm 1` and `vm of 100 MB` are the same command, so what their times to freeze differ by is the noise of all.\nThe paper's VM has 100 MB for each thread; stress-ng divides `--vm-bytes 100m` among its workers, so that here memory stays\nthe same and the paper's steep curve cannot show. The last rows have more memory with one worker instead.\n")
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
	p.claim("As in the paper, the checkpoint of rgb and cache takes no longer with eight workers than with one, but for the noise (0.25 s).", slower(events, "rgb", "cache"))
	p.claim("As in the paper, packing qsort's checkpoint makes it far less (half, say).", packed("qsort", true))
	p.claim("As in the paper, the size follows the memory: more of it, a larger checkpoint.", notGrowing(events))
	p.claim("Packing leaves half or less where memory is alike (rgb, cache, vm).", packed("rgb cache vm memory", true))
	p.claim("It leaves more than half of random numbers (bsearch, qsort).", packed("bsearch qsort", false))
}

// slower are the programs whose checkpoint takes longer by more than a quarter of a second with the
// most workers than with one.
func slower(events []cluster.Event, programs ...string) (list []string) {
	for _, program := range programs {
		runs := byWorkers(events, program)
		if len(runs) == 0 {
			continue
		}
		one, _ := took(runs[0].Event, "freeze")
		most, _ := took(runs[len(runs)-1].Event, "freeze")
		if most-one > time.Second/4 {
			list = append(list, program)
		}
	}
	return list
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
