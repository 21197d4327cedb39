// SPDX-License-Identifier: Apache-2.0

// Package cluster runs scenario files about a cluster: nodes on one machine (package
// clustertest), containers that count, a timeline of migrations and faults, and
// expectations. It is how a migration is tried without machines, and how the
// C-Balancer paper's figures 7 to 9 are measured.
//
//	name: a container moves
//	nodes: [a, b]
//	containers:
//	  web: {node: a, memory: 100, files: 20}
//	timeline:
//	  - {migrate: web, to: b, approach: commit}
//	expect:
//	  - {container: web, on: b, exact: true, downtime: 4s}
//
// docs/cluster-lab.md has all of the format. What a step of the timeline did is in its
// Event, which the command prints or writes as JSON.
package cluster
