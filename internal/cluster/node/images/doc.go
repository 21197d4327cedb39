// SPDX-License-Identifier: Apache-2.0

// Package images offers the manager's image registry to the engine of a node.
//
// The manager's registry is there for members by mutual TLS, of which an engine knows
// nothing. So the agent offers it to its engine on the loopback, which engines take for
// safe without TLS:
//
//	dockerd ──HTTP, a password──► 127.0.0.1:7474 (agent) ──TLS, this node's certificate──► manager
//
// A client that may push an image decides what a container of the next node runs. So a
// request needs the password of a move (passes), which only the engine gets. Any local
// user can connect, and so can root of a container in the host's network namespace;
// neither has one. The user at the other end of a connection is not asked for: the
// kernel forgets him while a connection ends, and takes root of a container for root.
package images
