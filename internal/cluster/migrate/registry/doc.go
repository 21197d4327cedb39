// SPDX-License-Identifier: Apache-2.0

// Package registry is a private registry of images on disk: the CNCF's distribution,
// the one behind Docker's own registry image, inside the manager. Through it the
// images of migrated containers travel (approach 2 of the C-Balancer paper): a layer
// that is there already is not sent again.
//
//	r, err := registry.Open("/var/lib/weir/registry")
//	http.Serve(listener, r)          // docker push 10.0.0.1:5000/weir-move:m-7f2c
//
// Layers go to disk as they come, so memory stays small whatever an image's size. The
// folder has distribution's layout and may be served by any other one.
//
// What it does not do: users and rights. The manager serves it to members of the
// cluster only, by mutual TLS.
// Why distribution: docs/decisions/0021-registry.md.
package registry
