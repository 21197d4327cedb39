// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/cluster/wire"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// clockSkew is by how much a node's clock may be behind the manager's.
	clockSkew = time.Hour
)

// Names in certificates.
const (
	ManagerName = "manager.weir"
	nodeSuffix  = ".node.weir"
)

// NodeName is the name in a node's certificate.
func NodeName(node string) string { return node + nodeSuffix }

// Authority signs the cluster's certificates.
type Authority struct {
	Cert *x509.Certificate
	key  ed25519.PrivateKey
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
	return Authority{cert, key}, err
}

// serial is a random number of 127 bits.
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
	if block, _ := pem.Decode(request); block != nil {
		request = block.Bytes
	}
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("signing request cannot be read: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("signing request is not signed by its own key: %w", err)
	}
	key, ok := csr.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("signing request has a key of type %T; Weir uses Ed25519", csr.PublicKey)
	}
	return a.issue(node, NodeName(node), key, now)
}

func (a Authority) issue(common, dns string, key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: common},
		DNSNames:     []string{dns},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// The files of an authority and of an identity, in their folder.
const (
	authorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
	certFile          = "own.crt"
	keyFile           = "own.key"
)

// ErrNone is the error of a folder that has no certificates yet.
var ErrNone = errors.New("no certificates")

// Save writes an authority into a folder, which only root can read. It overwrites
// nothing.
func (a Authority) Save(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, authorityKeyFile)); err == nil {
		return fmt.Errorf("%s has an authority already; its nodes trust no other, so remove it only to begin anew", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, authorityKeyFile), a.key); err != nil {
		return err
	}
	return writeCert(filepath.Join(dir, authorityCertFile), a.Cert)
}

// LoadAuthority reads what Save wrote. The error is ErrNone if there is nothing.
func LoadAuthority(dir string) (Authority, error) {
	key, err := readKey(filepath.Join(dir, authorityKeyFile))
	if err != nil {
		return Authority{}, err
	}
	cert, err := readCert(filepath.Join(dir, authorityCertFile))
	return Authority{cert, key}, err
}

func writeKey(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func writeCert(path string, cert *x509.Certificate) error {
	return atomicfile.Write(path, EncodeCert(cert), 0o644)
}

// EncodeCert is a certificate as PEM.
func EncodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// DecodeCert reads one certificate of PEM.
func DecodeCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNone, filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: no key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T; Weir uses Ed25519", path, parsed)
	}
	return key, nil
}

func readCert(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNone, filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	cert, err := DecodeCert(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return cert, nil
}
