// SPDX-License-Identifier: Apache-2.0

// Package safepath opens and makes what an administrator names by a path, and refuses what another
// user could change or exchange: a program that root runs, a configuration, a key, a socket, a
// folder of state.
//
//	f, err := safepath.Open("/etc/weir/weir.yaml")
//	// open /etc/weir/weir.yaml: folder /etc/weir belongs to uid 1000 and has mode 0755: ...;
//	// close it: chown root:root /etc/weir && chmod go-w /etc/weir
//
// The file and every folder on the way to it, from / on, have to belong to root or to the user
// of this process, and be closed to writes of group and others. A POSIX ACL counts too: the
// kernel shows the widest right that it gives as the right of the group. Symbolic links are
// followed by their text, and the folders on their way are examined in the same way.
//
// Each folder is opened once, by O_PATH, and the next name is looked up in that descriptor. What
// is opened at the end is what was examined, also while other processes rename files and folders.
//
// Two kinds of folders are passed though they are open:
//
//   - A sticky one, such as /tmp, on the way to a folder of root's: no other user can remove
//     that. A file or a symbolic link in a sticky folder is refused, since another user may have
//     put it there as a hard link.
//   - The root of a ConfigMap that kubelet has mounted read-only, which has mode 0777. On the
//     node it lies below a folder that root alone may enter.
//
// The package does not examine what a program loads or runs in turn: an interpreter, a library.
package safepath
