// SPDX-License-Identifier: Apache-2.0

// Package accept says which configurations of Docker containers a node takes from other
// nodes.
//
// The configuration comes from another node, which may be hostile, and the engine here
// obeys whatever is in it: Privileged, a bind of / or the host's process namespace make the
// container root of this host. So every field is one of these:
//
//   - vetted: a rule says which values are harmless, or that an operator allows it;
//   - limits and settings inside the container only: any value;
//   - everything else: only its zero value, fields of later engines included.
//
// The vetting works on a copy of the configuration. A field that a rule has passed
// is set to zero there, and a field that is left over at the end is refused.
//
//	list := accept.Examine(order, migrate.Accept{}, accept.Host{Runtime: "runc", Cgroups: "2"})
//
// For example, a container with the capability SYS_ADMIN gives one finding, with the line
// of cluster.accept that would allow it ("capabilities: [SYS_ADMIN]").
//
// What it does not do: look at the host or ask its engine. Whether a path leads over a
// symbolic link, or an address is taken, is for package docker to see.
package accept
