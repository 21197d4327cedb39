// SPDX-License-Identifier: Apache-2.0

package tlsfile

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Client returns the configuration of one connection to host, from the files as they are
// now.
func (f Files) Client(host string) (*tls.Config, error) {
	pair, err := f.pair()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cmp.Or(f.ServerName, host)}
	if f.CA != "" {
		if c.RootCAs, err = pool(f.CA); err != nil {
			return nil, err
		}
	}
	if f.Cert != "" {
		// Certificates would keep a certificate back that the server's list of
		// authorities does not name; shown, it is refused with a reason.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c, nil
}

// ClientByName does the same as Client for servers whose certificates may have no subject
// alternative name, such as certificates that ovs-pki makes: then their common name has to be
// the server's name. All else is verified as usual.
func (f Files) ClientByName(host string) (*tls.Config, error) {
	c, err := f.Client(host)
	if err != nil {
		return nil, err
	}
	roots, name := c.RootCAs, c.ServerName
	// What the library would verify, verifyByName does.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error { return verifyByName(state, roots, name) }
	return c, nil
}

func verifyByName(state tls.ConnectionState, roots *x509.CertPool, name string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has shown no certificate")
	}
	leaf := state.PeerCertificates[0]
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return err
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.URIs)+len(leaf.EmailAddresses) == 0 {
		if leaf.Subject.CommonName == name {
			return nil
		}
		return fmt.Errorf("the server's certificate is for %q, not for %q; if this is the right server, give that as its server name", leaf.Subject.CommonName, name)
	}
	return leaf.VerifyHostname(name)
}

// dialer makes a connection.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial makes a connection and shakes hands; base makes the connection below. host is
// that of address unless the files name another.
func (f Files) Dial(ctx context.Context, network, address string, base dialer) (net.Conn, error) {
	return f.dial(ctx, network, address, f.Client, base)
}

// DialByName makes a connection to HOST:PORT by TCP, and verifies it as ClientByName says.
func (f Files) DialByName(ctx context.Context, address string) (net.Conn, error) {
	return f.dial(ctx, "tcp", address, f.ClientByName, new(net.Dialer).DialContext)
}

func (f Files) dial(ctx context.Context, network, address string, client func(host string) (*tls.Config, error), base dialer) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	cfg, err := client(host)
	if err != nil {
		return nil, err
	}
	conn, err := base(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return Shake(ctx, conn, cfg)
}

// Shake makes conn one with TLS. On failure conn is closed.
func Shake(ctx context.Context, conn net.Conn, cfg *tls.Config) (net.Conn, error) {
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return client{secure}, nil
}

// alertTime bounds how long a failed write looks for the server's reason.
const alertTime = time.Second

// client tells why a server ended the connection. With TLS 1.3 a server checks the
// client's certificate after the client's handshake is over. Its refusal arrives as an
// alert, and a client that writes first sees a broken pipe instead.
type client struct{ *tls.Conn }

// Write returns the server's alert in the place of the broken pipe that it caused.
func (c client) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return n, err
	}
	if failed := c.SetReadDeadline(time.Now().Add(alertTime)); failed != nil {
		return n, err
	}
	_, reason := c.Read(make([]byte, 1))
	var remote *net.OpError
	if errors.As(reason, &remote) && remote.Op == "remote error" {
		return n, reason
	}
	return n, err
}

// Explain returns err in words that name the disagreement of the two ends of a connection, if
// err is about one; else it returns err.
func (f Files) Explain(err error) error {
	if better := f.Explanation(err); better != nil {
		return better
	}
	return err
}

// Explanation returns the error in the words of Explain, nil if it is about anything else.
func (f Files) Explanation(err error) error {
	var (
		unknown   x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		remote    *net.OpError
		not       tls.RecordHeaderError
		authority = "the system's authorities"
	)
	if f.CA != "" {
		authority = "the authority in " + f.CA
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return fmt.Errorf("the server's certificate is not of %s; give the authority that signed it: %w", authority, err)
	case errors.As(err, &name):
		return fmt.Errorf("the server's certificate is for another name; if this is the right server, give its server name: %w", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the server's certificate is out of date: %w", err)
	case errors.As(err, &not):
		return fmt.Errorf("the server speaks no TLS at this address: %w", err)
	case errors.As(err, &remote) && remote.Op == "remote error" && f.Cert == "":
		return fmt.Errorf("the server refuses a connection without a certificate of its authority, or does not agree on TLS; give cert and key: %w", err)
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Errorf("the server refuses the certificate in %s, or does not agree on TLS: %w", f.Cert, err)
	}
	return nil
}
