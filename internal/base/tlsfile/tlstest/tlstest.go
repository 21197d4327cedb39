// SPDX-License-Identifier: Apache-2.0

// Package tlstest makes authorities and certificates in files, for tests of what
// reads them.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/base/tlsfile"
)

// Authority signs certificates.
type Authority struct {
	File string // its certificate
	Dir  string // where all files go

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority called name, in a folder of the test.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{Dir: t.TempDir(), key: newKey(t)}
	a.File = filepath.Join(a.Dir, name+".pem")
	form := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, form, form, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	write(t, a.File, 0o644, "CERTIFICATE", der)
	return a
}

// Option changes a certificate before it is signed.
type Option func(*x509.Certificate)

// Expired makes it one of yesterday.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
}

// NoNames leaves the common name alone.
func NoNames(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil }

// Issue signs a certificate for name, localhost and 127.0.0.1, for servers and
// clients, and returns the files of an end that has it and trusts the authority.
func (a *Authority) Issue(t testing.TB, name string, options ...Option) tlsfile.Files {
	t.Helper()
	f := tlsfile.Files{CA: a.File, Cert: filepath.Join(a.Dir, name+".cert"), Key: filepath.Join(a.Dir, name+".key")}
	form := &x509.Certificate{SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{name, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, option := range options {
		option(form)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Cert, 0o644, "CERTIFICATE", der)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Key, 0o600, "PRIVATE KEY", secret)
	return f
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// write puts a file in place at once, as a tool that renews certificates does.
func write(t testing.TB, path string, mode os.FileMode, kind string, der []byte) {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	err := os.WriteFile(path+".new", text, mode)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}
