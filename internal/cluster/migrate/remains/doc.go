// SPDX-License-Identifier: Apache-2.0

// Package remains takes away what CRIU leaves in a container when it is killed. CRIU tidies
// up after a failure of its own; a kill (of its unit, by the kernel for want of memory) leaves
//
//   - its network lock: rules in the container's network namespace that drop every packet,
//   - a frozen cgroup, if the kill comes while it stops the processes,
//   - TCP connections in repair mode, in which the kernel sends nothing,
//   - and, if its parent was killed, CRIU itself, at work on the container.
//
// The engine goes on to call such a container running.
//
//	n, err := remains.End(ctx, remains.At(folder))    // no CRIU is at work any more
//	taken, err := remains.Clear(ctx, place, pid, id)  // e.g. [rules that drop its packets]
//
// What it does not do: processes of a restore that failed end with their container's cgroup,
// which the engine removes.
package remains
