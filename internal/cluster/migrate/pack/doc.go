// SPDX-License-Identifier: Apache-2.0

// Package pack carries a folder from one machine to another as a stream: tar with
// everything that a container's layer has (owners, modes, times to the nanosecond,
// extended attributes, hard links, devices, the whiteouts of an overlay), packed
// with zstd at its fastest.
//
//	source: pack.Write(w, "/var/lib/docker/overlay2/ab12/diff")
//	target: pack.Read(r, "/var/lib/docker/overlay2/cd34/diff")
//
// A stream ends with a frame that Read insists on, so that one that was cut off is
// never taken for a whole one. Names are resolved below the folder and nowhere else
// (os.Root), whatever the stream says.
//
// Sockets are left out: what was bound to them binds them again.
package pack
