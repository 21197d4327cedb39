// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
)

// The files of an authority and of an identity, in their folder.
const (
	authorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
	certFile          = "own.crt"
	keyFile           = "own.key"
)

// ErrNone is the error of a folder that has no certificates yet.
var ErrNone = errors.New("no certificates")

// Save writes a first authority into a folder, which only its user can read. It
// overwrites nothing.
func (a Authority) Save(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, authorityKeyFile)); err == nil {
		return fmt.Errorf("%s has an authority already; its nodes trust no other, so remove it only to begin anew", dir)
	}
	return a.Replace(dir)
}

// Replace writes an authority over the one in a folder. The key, its certificate and
// the bridges are in one file, so that a crash leaves the former authority or the new
// one; ca.crt beside it is a copy for people.
func (a Authority) Replace(dir string) error {
	if err := safepath.Folder(dir, 0o700); err != nil {
		return err
	}
	text, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	text = append(text, EncodeCerts(a.Chain())...)
	if err := atomicfile.Write(filepath.Join(dir, authorityKeyFile), text, 0o600); err != nil {
		return err
	}
	return writeCert(filepath.Join(dir, authorityCertFile), a.Cert)
}

// LoadAuthority reads what Save wrote. The error is ErrNone if there is nothing.
func LoadAuthority(dir string) (Authority, error) {
	path := filepath.Join(dir, authorityKeyFile)
	key, err := readKey(path)
	if err != nil {
		return Authority{}, err
	}
	text, err := safepath.ReadFile(path)
	if err != nil {
		return Authority{}, err
	}
	certs, err := DecodeCerts(text)
	if err == nil && len(certs) == 0 { // of a version that kept the certificate apart
		certs, err = readCerts(filepath.Join(dir, authorityCertFile))
	}
	if err != nil {
		return Authority{}, fmt.Errorf("%s: %w", path, err)
	}
	a := Authority{Cert: certs[0], Bridges: certs[1:], key: key}
	if public, ok := a.Cert.PublicKey.(ed25519.PublicKey); !ok || !public.Equal(key.Public()) {
		return Authority{}, fmt.Errorf("key and certificate in %s do not belong together; put both back from the same copy", path)
	}
	return a, nil
}

func encodeKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func writeKey(path string, key ed25519.PrivateKey) error {
	text, err := encodeKey(key)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

func writeCerts(path string, certs []*x509.Certificate) error {
	return atomicfile.Write(path, EncodeCerts(certs), 0o644)
}

func writeCert(path string, cert *x509.Certificate) error {
	return atomicfile.Write(path, EncodeCert(cert), 0o644)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := safepath.ReadFile(path)
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

func readCerts(path string) ([]*x509.Certificate, error) {
	text, err := safepath.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNone, filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	certs, err := DecodeCerts(text)
	if err == nil && len(certs) == 0 {
		err = errNoCert
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certs, nil
}

// EncodeCert returns a certificate as PEM.
func EncodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// EncodeCerts returns several certificates as PEM, one after the other.
func EncodeCerts(certs []*x509.Certificate) (text []byte) {
	for _, c := range certs {
		text = append(text, EncodeCert(c)...)
	}
	return text
}

var errNoCert = errors.New("no certificate in PEM")

// DecodeCert reads the first certificate of PEM.
func DecodeCert(text []byte) (*x509.Certificate, error) {
	certs, err := DecodeCerts(text)
	if err != nil {
		return nil, err
	}
	if len(certs) == 0 {
		return nil, errNoCert
	}
	return certs[0], nil
}

// DecodeCerts reads all certificates of PEM, and passes over what else there is.
func DecodeCerts(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	return certs, nil
}
