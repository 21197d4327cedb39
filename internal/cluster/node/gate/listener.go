// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"weir/internal/base/crowd"
	"weir/internal/cluster/pki"
)

// The most connections of other nodes. An honest node has one or two for each copy under
// way.
const (
	ConnectionsEach    = 4 * CopiesEach
	ConnectionsAll     = 2048
	ConnectionsUnknown = 256 // that have not shown a certificate yet
)

// Listen returns a listener around one that accepts, which bounds how many connections are
// open: in all, of each member, and of those that have shown no member's certificate yet.
func Listen(ln net.Listener) *crowd.Listener {
	return crowd.Listen(ln, crowd.ConnLimits{Unknown: ConnectionsUnknown, Each: ConnectionsEach, All: ConnectionsAll})
}

// Guard returns a server's configuration whose handshakes tell the listener of Listen which
// member a connection is of. A connection whose certificate names no member stays a
// stranger's, if cfg lets it in at all.
func Guard(cfg *tls.Config, isMember func(name string, cert *x509.Certificate) bool) *tls.Config {
	guarded := cfg.Clone()
	guarded.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, ok := hello.Conn.(*crowd.Conn)
		if !ok {
			return nil, fmt.Errorf("a connection of type %T", hello.Conn)
		}
		own := cfg.Clone()
		own.VerifyConnection = func(state tls.ConnectionState) error {
			if err := cfg.VerifyConnection(state); err != nil || len(state.PeerCertificates) == 0 {
				return err
			}
			member, cert, err := pki.Node(state)
			if err != nil || !isMember(member, cert) {
				return err
			}
			return c.Admit("", member)
		}
		return own, nil
	}
	return guarded
}
