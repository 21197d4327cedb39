// SPDX-License-Identifier: Apache-2.0

package tlsfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"weir/internal/base/safepath"
)

// maxFile bounds a file of certificates, a key or a password, in bytes.
const maxFile = 1 << 20

// Files are the files of one end of a connection, all PEM. The zero value means that
// no TLS is asked for.
type Files struct {
	CA         string // authorities that the other end's certificate has to be of; "" = the system's, and for a server: no certificate is asked for
	Cert, Key  string // this end's; both or neither
	ServerName string // for a client: the name in the server's certificate; "" = the host that is dialled
}

// Given reports whether anything is set.
func (f Files) Given() bool { return f != Files{} }

// Check reads all files and returns the first mistake in them, as they are now.
func (f Files) Check() error {
	if f.CA != "" {
		if _, err := pool(f.CA); err != nil {
			return err
		}
	}
	pair, err := f.pair()
	if err != nil || f.Cert == "" {
		return err
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("certificate %s expired at %s; put a new one there", f.Cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	} else if now.Before(pair.Leaf.NotBefore) {
		return fmt.Errorf("certificate %s is not valid before %s; is this machine's clock right?", f.Cert, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// pair reads certificate and key; without them it is empty.
func (f Files) pair() (tls.Certificate, error) {
	switch {
	case f.Cert == "" && f.Key == "":
		return tls.Certificate{}, nil
	case f.Key == "":
		return tls.Certificate{}, fmt.Errorf("certificate %s has no key; give its key as well", f.Cert)
	case f.Cert == "":
		return tls.Certificate{}, fmt.Errorf("key %s has no certificate; give its certificate as well", f.Key)
	}
	cert, err := read("certificate", f.Cert, false)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := read("key", f.Key, true)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s and key %s: %w", f.Cert, f.Key, err)
	}
	return pair, nil
}

// pool reads the certificates of authorities.
func pool(file string) (*x509.CertPool, error) {
	text, err := read("authority", file, false)
	if err != nil {
		return nil, err
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authority %s: holds no certificate; give a file in PEM (BEGIN CERTIFICATE)", file)
	}
	return p, nil
}

// Secret reads a file with a password or the like: one line, whose end is cut off.
func Secret(file string) (string, error) {
	text, err := read("secret", file, true)
	if err != nil {
		return "", err
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return "", fmt.Errorf("secret %s: is empty", file)
	}
	if bytes.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("secret %s: has more than one line", file)
	}
	return string(text), nil
}

// read reads a file that another user could not have put there. A secret one must be closed to
// other users, and not be writable by its group.
func read(what, path string, secret bool) ([]byte, error) {
	text, mode, err := safepath.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, path, err)
	}
	if secret && mode&0o027 != 0 {
		return nil, fmt.Errorf("%s %s: is open to other users (mode %04o); close it: chmod 600 %s", what, path, mode, path)
	}
	return text, nil
}
