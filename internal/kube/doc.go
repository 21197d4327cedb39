// SPDX-License-Identifier: Apache-2.0

// Package kube is weir-kubernetes, the part of Weir on a node of a Kubernetes cluster. It
// stands beside the agent and speaks to its socket, so that neither client-go nor NRI is in
// the program that runs as root with BPF:
//
//		containerd, CRI-O ──NRI──► nri ─────┐
//		API server ──────watch──► informer ─┼─► node ──► api.Client ──► agent
//		kubelet ──────────DRA──► claims ────┘    └─ decide (pure)
//
//	  - nri says which sandboxes there are, before a container of theirs starts;
//	  - informer says what the annotations of this node's pods and of their namespaces are,
//	    and takes Events;
//	  - claims is the DRA driver: which mins the scheduler has promised to which pod;
//	  - decide makes of all that the workloads and groups that the agent should have, and the
//	    faults that people should be told of. It is pure;
//	  - node compares this with what the agent has, and changes the differences.
//
// Nothing in force depends on this program: when it ends, workloads, groups and mins stay as
// they are until another one compares anew.
package kube
