// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"fmt"
	"math"

	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// Resource is a resource that the containers of a node share.
type Resource int

// The resources; the order is that of a Vector.
const (
	CPU       Resource = iota // CPUs
	Memory                    // bytes
	BlockIO                   // bytes per second, read and written
	Transmit                  // bits per second, egress (upload)
	Receive                   // bits per second
	Resources                 // how many there are
)

var resourceNames = [Resources]string{"cpu", "memory", "block I/O", "transmit", "receive"}

func (r Resource) String() string { return resourceNames[r] }

// Vector has an amount of each resource.
type Vector [Resources]float64

// limited lists the resources of which a node is never given more than it has.
// Containers share the others; S says how evenly.
var limited = [...]Resource{CPU, Memory}

// Node is a machine.
type Node struct {
	Name string
	// Capacity; CPU and memory have to be known. 0 for another one means that it is
	// not: demands are then compared with the largest load that any node has now, or
	// with 100 MB/s of block I/O and 1 Gbit/s, whichever is more.
	Capacity Vector
	// Guaranteed is the largest sum of the mins of its containers.
	Guaranteed policy.Rate
	// Engine runs its containers; another engine's cannot be moved to it. "" = any.
	Engine wire.EngineName
	// Closed says that nothing may be moved to it.
	Closed bool
	// Accepts has the indexes of the nodes whose containers may be moved to it; nil = all.
	Accepts map[int]bool
}

// Container is a container that can be moved.
type Container struct {
	Name   string
	Node   int // index of the node on which it runs
	Demand Vector
	Min    policy.Rate     // guaranteed bandwidth, 0 = none
	Pinned bool            // it may not be moved
	Engine wire.EngineName // that runs it, "" = any
	// Group names an anti-affinity: no two of one group on a node. "" = none.
	Group string
	// Barred are indexes of nodes to which it may not be moved.
	Barred []int
	// Bytes have to travel if it is moved: its memory and its changed layers.
	Bytes float64
}

// Measure says what a node's utilisation is.
type Measure int

// The measures.
const (
	MeasureLoad Measure = iota // the sum over its containers, of its capacity
	MeasureMean                // the mean over its containers: the paper's equation 2
)

// Measures are their names, for people.
var Measures = []string{MeasureLoad: "load", MeasureMean: "mean"}

func (m Measure) String() string { return Measures[m] }

// MoveCost says what a move costs, as seconds in which the container does not run.
type MoveCost struct {
	FixedSeconds   float64 // of any move
	BytesPerSecond float64 // at which its bytes travel; 0 = bytes cost nothing
}

// DefaultCost is the cost of moves by checkpoint, commit and registry, as measured
// between two nodes on one machine: about 2.5 s for a container without memory and
// 7.2 s for one with 100 MB.
var DefaultCost = MoveCost{FixedSeconds: 2.5, BytesPerSecond: 21e6}

// Seconds returns the cost of moving c.
func (k MoveCost) Seconds(c *Container) float64 {
	if k.BytesPerSecond > 0 {
		return k.FixedSeconds + c.Bytes/k.BytesPerSecond
	}
	return k.FixedSeconds
}

// Problem is a cluster as it is now.
type Problem struct {
	Nodes      []Node
	Containers []Container
	Measure    Measure
	Cost       MoveCost // the zero value counts moves, as the paper does
}

// Check returns the first fault of a problem that came from outside, nil if there
// is none.
func (p *Problem) Check() error {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		for r, v := range n.Capacity {
			if !(v >= 0) || math.IsInf(v, 1) || v == 0 && (r == int(CPU) || r == int(Memory)) {
				return fmt.Errorf("node %s: capacity of %s is %v; give a positive number", n.Name, Resource(r), v)
			}
		}
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Node < 0 || c.Node >= len(p.Nodes) {
			return fmt.Errorf("container %s: node %d does not exist; there are %d", c.Name, c.Node, len(p.Nodes))
		}
		for r, v := range c.Demand {
			if !(v >= 0) || math.IsInf(v, 1) {
				return fmt.Errorf("container %s: demand of %s is %v; give a number that is not negative", c.Name, Resource(r), v)
			}
		}
		if !(c.Bytes >= 0) || math.IsInf(c.Bytes, 1) {
			return fmt.Errorf("container %s: bytes %v; give a number that is not negative", c.Name, c.Bytes)
		}
	}
	return nil
}

// Assignment has the index of a node for each container: the paper's chromosome.
type Assignment []int

// Initial returns the placement of now.
func (p *Problem) Initial() Assignment {
	at := make(Assignment, len(p.Containers))
	for i := range p.Containers {
		at[i] = p.Containers[i].Node
	}
	return at
}
