// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/cluster/wire"
)

// Identity is what one member of the cluster has: its key, its certificate, and
// the authority that it trusts.
type Identity struct {
	Authority *x509.Certificate
	Cert      *x509.Certificate
	Key       ed25519.PrivateKey
}

// Name is who this is: wire.Manager, or a node.
func (i Identity) Name() string { return i.Cert.Subject.CommonName }

// Public is the public half of the key.
func (i Identity) Public() ed25519.PublicKey { return i.Key.Public().(ed25519.PublicKey) }

// NewKey makes a key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// Request is a signing request for key, DER.
func Request(key ed25519.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// Save writes the identity into a folder.
func (i Identity) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(
		writeKey(filepath.Join(dir, keyFile), i.Key),
		writeCert(filepath.Join(dir, authorityCertFile), i.Authority),
		writeCert(filepath.Join(dir, certFile), i.Cert),
	)
}

// LoadIdentity reads what Save wrote. The error is ErrNone if there is nothing.
func LoadIdentity(dir string) (Identity, error) {
	key, err := readKey(filepath.Join(dir, keyFile))
	if err != nil {
		return Identity{}, err
	}
	cert, err := readCert(filepath.Join(dir, certFile))
	if err != nil {
		return Identity{}, err
	}
	authority, err := readCert(filepath.Join(dir, authorityCertFile))
	if err != nil {
		return Identity{}, err
	}
	i := Identity{authority, cert, key}
	if public, ok := cert.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(i.Public()) {
		return Identity{}, fmt.Errorf("certificate and key in %s do not belong together; remove both and join again with a new token", dir)
	}
	return i, nil
}

// RenewAt is when a new certificate should be asked for: after two thirds of its life.
func (i Identity) RenewAt() time.Time {
	return i.Cert.NotBefore.Add(i.Cert.NotAfter.Sub(i.Cert.NotBefore) * 2 / 3)
}

// tlsCert carries the authority beside the certificate, so that a node that joins can
// compare it with its token.
func (i Identity) tlsCert() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.Cert.Raw, i.Authority.Raw}, PrivateKey: i.Key, Leaf: i.Cert}
}

func (i Identity) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.Authority)
	return pool
}

// Server is how this member answers: TLS 1.3, and whoever shows a certificate shows
// one of this cluster. auth says whether one has to be shown.
func (i Identity) Server(auth tls.ClientAuthType) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.tlsCert()}, ClientAuth: auth, ClientCAs: i.pool()}
}

// Client is how this member connects to the one whose certificate has the given
// name (ManagerName, or NodeName of one).
func (i Identity) Client(name string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.tlsCert()}, RootCAs: i.pool(), ServerName: name}
}

// Joining is how a node connects that has nothing but a token: only to a manager
// whose authority has the token's hash.
func Joining(t Token) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The usual check would ask the host's authorities; VerifyConnection asks the token's.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			for _, cert := range state.PeerCertificates {
				if Hash(cert) != t.Authority {
					continue
				}
				pool := x509.NewCertPool()
				pool.AddCert(cert)
				_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: ManagerName})
				return err
			}
			return ErrOtherManager
		},
	}
}

// ErrOtherManager is the error of a token for another manager than the one that
// answers.
var ErrOtherManager = errors.New("the token is for another manager than the one that answers there")

// Node is the node at the other end of a connection. The certificate was verified
// by the handshake.
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
