// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"
)

// Holder is a member that can prove who it is: an Identity, or Credentials.
type Holder interface {
	Name() string
	Server(tls.ClientAuthType) *tls.Config
	Client(name string) *tls.Config
}

var (
	_ Holder = Identity{}
	_ Holder = (*Credentials)(nil)
)

// Credentials is an identity that changes while connections are made by it. The TLS
// configurations that it gives read the identity of the moment in each handshake, so a
// renewal or a rotation of the authority needs no restart of what uses them.
type Credentials struct {
	now     func() time.Time
	present atomic.Pointer[Identity]
	// admit says why a node that connects, and whose certificate is in order, is refused
	// all the same.
	admit func(node string, cert *x509.Certificate) error
}

// NewCredentials begins with an identity; now is the clock that certificates are
// checked by.
func NewCredentials(i Identity, now func() time.Time) *Credentials {
	c := &Credentials{now: now}
	c.present.Store(&i)
	return c
}

// Admit has every handshake of a node that connects ask whether it belongs to the
// cluster. It is called before the first handshake.
func (c *Credentials) Admit(ask func(node string, cert *x509.Certificate) error) { c.admit = ask }

// Identity returns the identity in use now.
func (c *Credentials) Identity() Identity { return *c.present.Load() }

// Replace puts another in its place.
func (c *Credentials) Replace(i Identity) { c.present.Store(&i) }

// Name implements Holder.
func (c *Credentials) Name() string { return c.Identity().Name() }

// Server returns the TLS configuration by which this member answers: TLS 1.3, and a
// client that shows a certificate has to show one of this cluster. auth is
// tls.RequireAndVerifyClientCert, or tls.VerifyClientCertIfGiven where strangers
// may join.
func (c *Credentials) Server(auth tls.ClientAuthType) *tls.Config {
	ask := tls.RequireAnyClientCert // verified below: bridges count, and the clock may be a test's
	if auth == tls.VerifyClientCertIfGiven {
		ask = tls.RequestClientCert
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Time:                   c.now,
		ClientAuth:             ask,
		SessionTicketsDisabled: true, // each connection shows its certificate
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert := c.Identity().tlsCert()
			return &cert, nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil // ClientAuth allows it, or has refused already
			}
			if err := c.Check(state.PeerCertificates, ""); err != nil || c.admit == nil {
				return err
			}
			node, cert, err := Node(state)
			if err != nil {
				return err
			}
			if err := c.admit(node, cert); err != nil {
				return fmt.Errorf("node %s %w", node, err)
			}
			return nil
		},
	}
}

// Client returns the TLS configuration by which this member connects to the one
// whose certificate has the given name (ManagerName, or NodeName of one).
func (c *Credentials) Client(name string) *tls.Config {
	cfg := c.Anonymous(name)
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert := c.Identity().tlsCert()
		return &cert, nil
	}
	return cfg
}

// Anonymous is Client without showing a certificate, for a member whose own has ended.
func (c *Credentials) Anonymous(name string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       c.now,
		ServerName: name,
		// The usual check knows no bridges; VerifyConnection does all of it.
		InsecureSkipVerify: true,
		VerifyConnection:   func(state tls.ConnectionState) error { return c.Check(state.PeerCertificates, name) },
	}
}

// Check verifies a chain that came by another way than a handshake.
func (c *Credentials) Check(chain []*x509.Certificate, name string) error {
	return verify(chain, c.Identity().trusted(), name, c.now())
}
