// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/base/safepath"
	"weir/internal/core/wire"
)

// Identity has the key of one member of the cluster, its certificate, and the
// authorities that it trusts.
type Identity struct {
	Authority *x509.Certificate // that has signed Cert
	Cert      *x509.Certificate
	Key       ed25519.PrivateKey
	// Bridges are shown with Cert to members that trust a former authority only.
	Bridges []*x509.Certificate
	// Trusted are the authorities whose certificates are believed; nil = Authority alone.
	Trusted []*x509.Certificate
}

// Name returns the member's name: wire.Manager, or a node.
func (i Identity) Name() string { return i.Cert.Subject.CommonName }

// Public returns the public half of the key.
func (i Identity) Public() ed25519.PublicKey { return i.Key.Public().(ed25519.PublicKey) }

// NewKey makes a key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// Request returns a signing request for key, DER.
func Request(key ed25519.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// Renewed returns the identity with a certificate and the authorities to trust, as the
// manager sent them: the certificate with its chain, and the authorities, both PEM.
func (i Identity) Renewed(certificate, authorities []byte, now time.Time) (Identity, error) {
	chain, err := DecodeCerts(certificate)
	if err != nil {
		return i, err
	}
	trusted, err := DecodeCerts(authorities)
	if err != nil {
		return i, err
	}
	if len(chain) == 0 || len(trusted) == 0 {
		return i, errNoCert
	}
	next := Identity{Cert: chain[0], Authority: trusted[0], Key: i.Key, Trusted: trusted}
	if len(chain) > 1 {
		next.Authority, next.Bridges = chain[1], chain[2:]
	}
	if public, ok := next.Cert.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(i.Public()) {
		return i, errors.New("the certificate is for another key")
	}
	return next, verify(next.chain(), trusted, "", now)
}

// Save writes the identity into a folder. It writes the trusted authorities before the
// certificate that needs them, so that a crash between leaves a member that can renew.
func (i Identity) Save(dir string) error {
	if err := safepath.Folder(dir, 0o700); err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, keyFile), i.Key); err != nil {
		return err
	}
	if err := writeCerts(filepath.Join(dir, authorityCertFile), i.trusted()); err != nil {
		return err
	}
	return writeCerts(filepath.Join(dir, certFile), i.chain())
}

// LoadIdentity reads what Save wrote. The error is ErrNone if there is nothing.
func LoadIdentity(dir string) (Identity, error) {
	key, err := readKey(filepath.Join(dir, keyFile))
	if err != nil {
		return Identity{}, err
	}
	chain, err := readCerts(filepath.Join(dir, certFile))
	if err != nil {
		return Identity{}, err
	}
	trusted, err := readCerts(filepath.Join(dir, authorityCertFile))
	if err != nil {
		return Identity{}, err
	}
	i := Identity{Authority: trusted[0], Cert: chain[0], Key: key, Trusted: trusted}
	if len(chain) > 1 { // a version before wrote the certificate alone
		i.Authority, i.Bridges = chain[1], chain[2:]
	}
	if public, ok := i.Cert.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(i.Public()) {
		return Identity{}, fmt.Errorf("%w: %s; remove both and join again with a new token", ErrMismatch, dir)
	}
	return i, nil
}

// ErrMismatch is the error of a folder whose certificate is not for its key.
var ErrMismatch = errors.New("certificate and key do not belong together")

// RenewAt returns the time at which a member should ask for a new certificate: after a
// third of its life, and up to a tenth later, so that nodes that joined together do not
// come together. A certificate that lives longer than this version allows is due at once.
func (i Identity) RenewAt() time.Time {
	issued := i.Cert.NotBefore.Add(clockSkew)
	life := i.Cert.NotAfter.Sub(issued)
	if life > 2*CertificateLife {
		return issued
	}
	serial := append(make([]byte, 8), i.Cert.SerialNumber.Bytes()...)
	part := float64(binary.BigEndian.Uint32(serial[len(serial)-4:])) / (1 << 32)
	return issued.Add(life/3 + time.Duration(part*float64(life/10)))
}

// chain returns the certificates that this member shows in a handshake. The authority is
// beside the certificate, so that a node that joins can compare it with its token.
func (i Identity) chain() []*x509.Certificate {
	return append([]*x509.Certificate{i.Cert, i.Authority}, i.Bridges...)
}

// Bundle returns the certificate with its chain, PEM.
func (i Identity) Bundle() []byte { return EncodeCerts(i.chain()) }

func (i Identity) trusted() []*x509.Certificate {
	if i.Trusted == nil {
		return []*x509.Certificate{i.Authority}
	}
	return i.Trusted
}

func (i Identity) tlsCert() tls.Certificate {
	c := tls.Certificate{PrivateKey: i.Key, Leaf: i.Cert}
	for _, cert := range i.chain() {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c
}

// Server does what Credentials.Server does, for an identity that does not change.
func (i Identity) Server(auth tls.ClientAuthType) *tls.Config {
	return NewCredentials(i, time.Now).Server(auth)
}

// Client does what Credentials.Client does, for an identity that does not change.
func (i Identity) Client(name string) *tls.Config { return NewCredentials(i, time.Now).Client(name) }

// Node returns the node at the other end of a connection. The certificate was
// verified by the handshake.
func Node(state tls.ConnectionState) (node string, cert *x509.Certificate, err error) {
	if len(state.PeerCertificates) == 0 {
		return "", nil, errors.New("no certificate was shown")
	}
	cert = state.PeerCertificates[0]
	for _, name := range cert.DNSNames {
		if node, ok := strings.CutSuffix(name, nodeSuffix); ok && wire.CheckNode(node) == nil && node == cert.Subject.CommonName {
			return node, cert, nil
		}
	}
	return "", cert, fmt.Errorf("certificate of %q is no node's", cert.Subject.CommonName)
}
