// SPDX-License-Identifier: Apache-2.0

// Package wire is what travels between the manager and the agents of a cluster:
// messages as Go types with a JSON encoding. Each carries its version, so that a
// reader refuses what it does not understand instead of guessing.
package wire

// Version is the version of the messages, their field v.
const Version = 1
