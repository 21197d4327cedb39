// SPDX-License-Identifier: Apache-2.0

// Package decide is what follows from what a node knows of its pods: the workloads and groups
// that the agent should have, and the faults that people should be told of. It is pure.
package decide
