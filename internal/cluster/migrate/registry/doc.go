// SPDX-License-Identifier: Apache-2.0

// Package registry is a private registry of images on disk: the CNCF's distribution,
// the one behind Docker's own registry image, inside the manager. Through it the
// images of migrated containers travel (approach 2 of the C-Balancer paper): a layer
// that is there already is not sent again.
//
//	r, err := registry.Open("/var/lib/weir/registry", registry.Quota{NodeBytes: 20e9})
//	r.Serve(w, q, registry.Client{Node: "a", Access: []access.Right{{Move: "m-7f2c", Source: true}}})
//
// A node that is the source of move m-7f2c may push weir-move:m-7f2c and
// weir-base:m-7f2c, its target may pull them, and no other node can do anything with
// them; no node may delete one (package access). Bytes of a node and of all, uploads and
// images are bounded (quota.go).
//
// Layers go to disk as they come, so memory stays small whatever an image's size. The
// folder has distribution's layout and may be served by any other one.
//
// What it does not do: say who a client is. The manager does, by mutual TLS.
// Why distribution: docs/decisions/0021-registry.md.
package registry
