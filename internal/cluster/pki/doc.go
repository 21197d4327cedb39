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
//	renewal             after a third of the 7 days that a certificate counts
//	rotation            a new authority takes the place of the former one, which signs a
//	                    bridge to it; a chain shows the bridges beside the certificate
//
// Who is a member now does not follow from a certificate: packages manager and node
// know that by the manager's list.
//
// The names in a certificate say what its holder is: manager.weir, or NODE.node.weir.
// They are no host names; addresses may change as they like. All keys are Ed25519,
// the same ones that sign messages (package wire).
package pki
