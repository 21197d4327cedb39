// SPDX-License-Identifier: Apache-2.0

// Package docker is the Docker engine of this machine as a migrate.Engine, through
// its API where that is fast enough and beside it where it is not:
//
//   - Dump: "docker checkpoint create" copies the memory into an archive in
//     containerd's store and out again (3 s for 100 MB). runc does the dump itself
//     at once (0.3 s); Docker notices that the container has ended.
//   - Restore: "docker start --checkpoint" copies the checkpoint in the same way. The
//     pages, which are nearly all of it, are therefore put beside it and linked to:
//     links are copied as links, and CRIU follows them.
//   - Layer: a container's own layer is a folder of its overlay (GraphDriver's
//     UpperDir), and so is that of its copy.
//
// All three need root and the daemon's mount namespace, which is found by the process
// that listens on the engine's socket.
//
// What it does not do: engines on other machines (DOCKER_HOST=tcp://...), rootless
// engines, Windows.
package docker
