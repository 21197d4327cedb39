// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

// CertificateLife is how long a member's certificate counts. The member renews it
// after a third of that (RenewAt), so a manager may be away for more than four days
// before a certificate ends.
const CertificateLife = 7 * 24 * time.Hour

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// clockSkew is by how much a node's clock may be behind the manager's.
	clockSkew = time.Hour
)

// Names in certificates.
const (
	ManagerName = "manager.weir"
	nodeSuffix  = ".node.weir"
)

// NodeName returns the name in a node's certificate.
func NodeName(node string) string { return node + nodeSuffix }

// Authority signs the cluster's certificates.
type Authority struct {
	Cert *x509.Certificate
	// Bridges lead from former authorities to this one, the newest first: for each a
	// certificate of its successor's key that it has signed, and its own certificate.
	Bridges []*x509.Certificate
	key     ed25519.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(now time.Time) (Authority, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "Weir cluster " + now.UTC().Format(time.DateOnly)},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return Authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return Authority{Cert: cert, key: key}, err
}

// Rotate makes the authority that takes the place of a. Members that trust a alone
// accept certificates of the new one by the bridge that a signs, for as long as a's own
// certificate counts.
func (a Authority) Rotate(now time.Time) (Authority, error) {
	next, err := NewAuthority(now)
	if err != nil {
		return next, err
	}
	template := *next.Cert
	template.SerialNumber, template.NotAfter = serial(), a.Cert.NotAfter
	template.AuthorityKeyId, template.Signature, template.RawIssuer = nil, nil, nil
	der, err := x509.CreateCertificate(rand.Reader, &template, a.Cert, next.key.Public(), a.key)
	if err != nil {
		return next, err
	}
	bridge, err := x509.ParseCertificate(der)
	if err != nil {
		return next, err
	}
	for _, c := range append([]*x509.Certificate{bridge, a.Cert}, a.Bridges...) {
		if now.Before(c.NotAfter) && len(next.Bridges) < maxBridges {
			next.Bridges = append(next.Bridges, c)
		}
	}
	return next, nil
}

// maxBridges bounds the bridges that are shown in each handshake: two for each rotation.
const maxBridges = 8

// Chain returns the authority's certificate with the bridges to it.
func (a Authority) Chain() []*x509.Certificate {
	return append([]*x509.Certificate{a.Cert}, a.Bridges...)
}

// Show returns a certificate with the chain that is shown with it, PEM.
func (a Authority) Show(cert *x509.Certificate) []byte {
	return EncodeCerts(append([]*x509.Certificate{cert}, a.Chain()...))
}

// Issued reports whether the authority has signed a certificate.
func (a Authority) Issued(cert *x509.Certificate) bool { return cert.CheckSignatureFrom(a.Cert) == nil }

// serial returns a random number of 127 bits.
func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return n
}

// Hash tells an authority from all others: SHA-256 of its public key as in the
// certificate.
func Hash(authority *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(authority.RawSubjectPublicKeyInfo)
}

// IssueManager signs the manager's certificate.
func (a Authority) IssueManager(key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	return a.issue(wire.Manager, ManagerName, key, now)
}

// IssueNode signs a node's certificate for the key of a signing request (PEM or
// DER); whatever else the request says is ignored.
func (a Authority) IssueNode(node string, request []byte, now time.Time) (*x509.Certificate, error) {
	if err := wire.CheckNode(node); err != nil {
		return nil, err
	}
	if len(request) > bound.Body {
		return nil, &bound.Error{What: "signing request", Has: len(request), Max: bound.Body, Unit: "bytes", Remedy: "send one for an Ed25519 key alone"}
	}
	if block, _ := pem.Decode(request); block != nil {
		request = block.Bytes
	}
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("signing request cannot be read: %w", err)
	}
	key, ok := csr.PublicKey.(ed25519.PublicKey)
	if !ok { // before its signature: a long RSA key takes seconds
		return nil, fmt.Errorf("signing request has a key of type %T; Weir uses Ed25519", csr.PublicKey)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("signing request is not signed by its own key: %w", err)
	}
	return a.issue(node, NodeName(node), key, now)
}

func (a Authority) issue(common, dns string, key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: common},
		DNSNames:     []string{dns},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(CertificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
