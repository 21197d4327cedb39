// SPDX-License-Identifier: Apache-2.0

package balancer

const head = `# The C-Balancer paper's optimizer, repeated

Written by ` + "`make figures`" + ` from [data](data); edits are lost. The paper is Dhumal and
Janakiram, *C-Balancer: A System for Container Profiling and Scheduling* (2020). A manager moves containers between
nodes so that the nodes are utilised alike, by a genetic algorithm.

Here its optimizer works on the workload mixes of its table II, as Swarm's spread would launch them, beside Weir's
local search.

* **Calculated**: what the programs demand was measured on real cgroups, one at a time ([the file](../../lab/c-balancer/programs.yaml));
  which container would be where, and S, is calculated from that. There was no cluster of 14 nodes, and no
  contention, except for figure 10(a), for which one and two programs at once were measured.
* **The cluster** is that of table I: 14 workers with 4 cores and 4 GB, and a link of 1 Gbit/s each, which the paper does
  not say.
* **Launches**: spread puts a container on a node with the fewest, by chance among equals. Each mix is launched with %d
  seeds; the figures are means over them. The paper has five runs.
* **Commit**: %s, planned on %s by ` + "`go run ./internal/dev/papers balancer plan`" + `.
* **One mix**: ` + "`weir simulate --algorithm local,genetic lab/c-balancer/w09.yaml`" + `
`

const stabilityText = `S is the variance over the nodes of the mean utilisation of a node's containers, added up over CPU, memory, block I/O
and network both ways (equations 2 and 3). Alpha is 0.85. **Reduced** is against spread. The last two columns are the local
search when it may move no more containers than the genetic algorithm has moved, launch by launch.`

const mutationText = `The paper lists the probability of a mutation among what has to be tuned, and prints none. Which one Weir takes was chosen so
that the mean of figure 10(b) comes out. These are others, with three seeds for each mix, and all else alike. The dashed line
is the paper's mean.`

const sweepText = `Alpha weighs S against moves: f = alpha S + (1 - alpha) d. S is what is left of spread's, moves are a part of the 28
containers; both are means over the ten mixes with three seeds each. The paper's figure has no numbers; it chooses 0.85
because both are low there.

At 0 only moves count, at 1 only S. The paper's text has it the other way round, but its equation 5 and its choice of
0.85 have it like this.`

const reading = `## How the paper was read

* **Equation 3** prints a sum over the nodes where it means their mean; S is divided by the number of nodes, which changes
  no comparison.
* **The mean over a node's containers** (equation 2) is 0 for a node without any. It does not say how much a node has to do:
  one with four containers of a CPU each and one with one such container count the same. With spread's equal numbers
  this does no harm. ` + "`weir plan`" + ` uses the sum instead ([more](../simulate.md#what-s-is)).
* **The genetic algorithm's parameters** are not in the paper. Here: 200 chromosomes, 300 generations, one-point cross-over
  with probability 0.8, mutation of one gene in one of twenty children, the 10 fittest pass; parents are the fitter of two
  drawn ones. The mutation was chosen so that S is reduced as much as in the paper ([others](#figure-10b-with-other-mutations)). More mutation spoils it: f is normalised between the best
  and the worst of the population, and beside spoiled children all others have nearly the same S, so that the moves decide.
* **S is small in most mixes.** Programs that use one CPU each differ in memory alone (W1), or differ from cache, which used
  less of its CPU. Which of them hurt each other through the cache, S does not see: cgroups do not count cache misses, and
  the CPU on which this was recorded does not show them either.
`

const gainsText = `What a program achieves depends on what shares its node. Every program was run alone, and every two that meet in a
mix, in real cgroups and network namespaces ([the runs](data/c-balancer-together/together.jsonl)): bogo operations per second of
stress-ng, Mbit/s that arrive for iperf. On that machine two programs have a CPU each, as on the paper's of 4 CPUs, so
what they do to each other's caches, memory and network is real. Three or four would share its CPUs, which they would
not on 4: they are **calculated**, each partner slows a program by as much as it does in their pair.

**Change** is the mean over a mix's 28 containers, and over the launches, of how much more a container achieves where
the plan has it than where spread has it. **Calculated** is the part of the containers whose figure after the moves is
(after spread, with two on each node, none is). Behind ± is the **noise**: each measured rate is moved by half its range, from
the lowest to the highest of its runs, up and down, and the changes which that makes in the mean are taken together as
independent errors are. ` + "**`weir plan`**" + ` is the local search as it is run by default: for the nodes' load, the sum over their containers,
with moves that cost their bytes, and only from nodes that use more than %.0f %% of a resource: a move costs a container seconds,
and where no node is short of anything, no container can win what the five metrics could show. **` + "`--above 0`" + `** is the same
for all nodes. The two columns before are by the paper's measure, the mean over a node's containers. **Lost packets** is the mean over iperf's containers, before and after the moves.`
