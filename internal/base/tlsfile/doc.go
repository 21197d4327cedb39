// SPDX-License-Identifier: Apache-2.0

// Package tlsfile makes TLS out of files that an administrator gives: a certificate,
// its key, and the authority that the other end's certificate has to be of.
//
// For example, the connection to a broker at k1:9093:
//
//	f := tlsfile.Files{CA: "/etc/weir/ca.pem", Cert: "/etc/weir/a.pem", Key: "/etc/weir/a.key"}
//	cfg, err := f.Client("k1")       // for this connection
//
// The files are read for each connection, so that a renewed certificate counts from
// the next one on; a server (Server) looks at each handshake whether they changed.
// The other end is always verified: there is no switch that turns it off.
//
// All files have to be in the hands of root, as package safepath says.
//
// A key, and any other secret (Secret), must not be open to other users: a file
// whose mode lets them read it is refused with the mode and the remedy.
//
// The certificates of Weir's own cluster are not its business; see package pki.
package tlsfile
