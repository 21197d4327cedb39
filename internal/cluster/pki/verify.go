// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// maxChain bounds the certificates of a peer that are looked at.
const maxChain = 2 + maxBridges

// verify checks that a chain begins with a certificate for name ("" = any) that counts
// now and that a trusted authority has signed, or the successor of one: a bridge in
// the chain is as good as the authority that has signed it.
func verify(chain, trusted []*x509.Certificate, name string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("no certificate was shown")
	}
	if len(chain) > maxChain {
		return fmt.Errorf("%d certificates were shown; a member has at most %d", len(chain), maxChain)
	}
	known := append([]*x509.Certificate{}, trusted...)
	for added := true; added; {
		added = false
		for _, c := range chain[1:] {
			if !contains(known, c) && isBridge(c, known, now) {
				known, added = append(known, c), true
			}
		}
	}
	roots := x509.NewCertPool()
	for _, c := range known {
		roots.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	return err
}

// isBridge reports whether a known authority that counts now has signed c as its successor.
func isBridge(c *x509.Certificate, known []*x509.Certificate, now time.Time) bool {
	if !c.IsCA || !c.BasicConstraintsValid || !counts(c, now) {
		return false
	}
	for _, k := range known {
		if counts(k, now) && c.CheckSignatureFrom(k) == nil {
			return true
		}
	}
	return false
}

func counts(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && !now.After(c.NotAfter)
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	for _, k := range list {
		if k.Equal(c) {
			return true
		}
	}
	return false
}

// Joining returns the TLS configuration for a node that has nothing but a token. It
// connects only to a manager whose authority has the token's hash, or is a successor
// of that one.
func Joining(t Token, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       now,
		// The usual check would ask the host's authorities; VerifyConnection asks the
		// token's.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if authority := withHash(state.PeerCertificates, t.Authority); authority != nil {
				return verify(state.PeerCertificates, []*x509.Certificate{authority}, ManagerName, now())
			}
			return ErrOtherManager
		},
	}
}

func withHash(certs []*x509.Certificate, hash [sha256.Size]byte) *x509.Certificate {
	for _, c := range certs {
		if c.IsCA && Hash(c) == hash {
			return c
		}
	}
	return nil
}

// ErrOtherManager is the error of a token for another manager than the one that
// answers.
var ErrOtherManager = errors.New("the token is for another manager than the one that answers there")
