// SPDX-License-Identifier: Apache-2.0

// Package registry is a private registry of images on disk, as much of the OCI
// distribution specification as engines need to push, pull and delete. Through it the
// images of migrated containers travel (approach 2 of the C-Balancer paper): a layer
// that is there already is not sent again.
//
//	r, err := registry.Open("/var/lib/weir/registry")
//	http.Serve(listener, r)          // docker push 10.0.0.1:5000/weir/web:m-7f2c
//
// Below its folder:
//
//	blobs/sha256/HEX            layers and configurations
//	manifests/sha256/HEX        manifests; their media type beside them in HEX.type
//	repositories/NAME/tags/TAG  the digest of a manifest
//	uploads/ID                  layers that are arriving
//
// A layer goes to disk as it comes and is renamed once its digest is right, so memory
// stays small whatever an image's size, and a crash leaves nothing half. Why not one
// of the libraries: docs/decisions/0021-registry.md.
//
// What it does not do: users and rights (serve it where only the nodes can reach it),
// lists of tags, signatures.
package registry
