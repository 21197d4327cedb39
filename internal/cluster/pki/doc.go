// SPDX-License-Identifier: Apache-2.0

// Package pki says who is who in a cluster: the certificates of the manager and of
// the nodes, the authority that signs them, and the tokens by which a node gets
// its first certificate.
//
//	weir manager init   makes the authority: a key and a certificate for 10 years
//	token               weir1.<hash of the authority's key>.<id>.<secret>
//	join                the node connects, accepts no server but one with a certificate
//	                    of the authority that the token names, shows id and secret,
//	                    and gets a certificate for a key that never leaves it
//	after that          both ends of every connection show a certificate (mutual TLS)
//
// The names in a certificate say what its holder is: manager.weir, or NODE.node.weir.
// They are no host names; addresses may change as they like. All keys are Ed25519,
// the same ones that sign messages (package wire).
package pki
