// SPDX-License-Identifier: Apache-2.0

// Package pack carries a folder from one machine to another as a stream: tar with
// everything that a container's layer has (owners, modes, times to the nanosecond,
// extended attributes, hard links, devices, the whiteouts of an overlay), packed
// with zstd at its fastest.
//
//	source: pack.Write(w, "/var/lib/docker/overlay2/ab12/diff")
//	target: pack.Read(r, "/var/lib/docker/overlay2/cd34/diff", pack.StreamBounds{Bytes: 1 << 30, Entries: 1e6})
//
// A stream ends with a frame that Read insists on, so that one that was cut off is
// never taken for a whole one.
//
// Neither end trusts what it works on. A container that shares the volume may swap a file
// for a link while it is packed, and the node that sends a stream may be hostile. So both
// walk by descriptors (openat2 below the folder, through no link, into no other mount),
// ask about a file by the descriptor that they read it by, and open nothing but regular
// files and folders. Read makes no more than its limits say, and no device but those that
// every container has. Why not os.Root: docs/decisions/0028-untrusted-files.md.
//
// What it does not do: a consistent picture of files that others write meanwhile. Sockets
// are left out: what was bound to them binds them again.
package pack
