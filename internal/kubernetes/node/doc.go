// SPDX-License-Identifier: Apache-2.0

// Package node holds what is known of this node's pods, and makes the agent's workloads and
// groups those that package decide says.
package node
