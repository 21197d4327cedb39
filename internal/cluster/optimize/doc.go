// SPDX-License-Identifier: Apache-2.0

// Package optimize decides which container should run on which node. It is a
// function of values: nodes with capacities, containers with demands, a seed in;
// a plan of moves out, the same one each time.
//
// The algorithms minimise the C-Balancer paper's fitness (section III),
//
//	f = alpha * S + (1 - alpha) * d        alpha = 0.85, the paper's
//
// S, the stability metric, is the variance over the nodes of a node's utilisation, added
// up over the resources; d is the part of the containers that moves, each counted by what
// its move costs. Both are divided by what makes them comparable: the genetic algorithm
// normalises over its population, as the paper does, the local search divides S by the S
// of now and d by the cost of moving every container.
//
// # Two readings of a node's utilisation
//
// The paper's (MeasureMean, its equation 2) is the mean over the node's containers.
// A node with twenty containers of 0.2 CPUs and one with a single such container
// are then equally utilised, so moving one container onto an empty node makes S
// zero whatever the first node suffers. Where all nodes have equally many
// containers, as after Swarm's spread, that does no harm. MeasureLoad is the sum,
// the part of its capacity that a node gives away: 4 CPUs of 4 against 0.2 of 4.
// The manager uses that; the paper's experiments are repeated with the paper's.
//
// # Algorithms
//
// Local is a local search that knows what a move changes: S is a variance, so a
// move of one container, or a swap of two, costs a few additions per resource,
// whatever the size of the cluster. Genetic is the paper's algorithm. Spread,
// BinPack and Random are what Docker Swarm does.
//
// # What a plan promises
//
// No node is given more CPU or memory than it has, or more guaranteed bandwidth
// than its link can promise, at any point of the plan if its moves are made one
// after the other in their order; a node that holds too much already gets nothing.
// Pinned containers stay, and two of an anti-affinity group never meet. What it
// does not do: look into the future, or know a clock.
package optimize
