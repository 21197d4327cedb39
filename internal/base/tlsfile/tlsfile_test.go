// SPDX-License-Identifier: Apache-2.0

package tlsfile_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
)

// serve runs a server with these files that greets each client.
func serve(t *testing.T, f tlsfile.Files) string {
	t.Helper()
	cfg, err := f.Server(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				fmt.Fprint(c, "hello")
				c.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

// greet connects and returns the serial number of the server's certificate.
func greet(t *testing.T, f tlsfile.Files, address string) (string, error) {
	t.Helper()
	var base net.Dialer
	c, err := f.Dial(t.Context(), "tcp", address, base.DialContext)
	if err != nil {
		return "", f.Explain(err)
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		return "", f.Explain(err) // a client's certificate is refused after its handshake
	}
	if string(text) != "hello" {
		t.Fatalf("read %q", text)
	}
	return c.(interface{ ConnectionState() tls.ConnectionState }).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

func TestBothEndsAreVerified(t *testing.T) {
	ours, other := tlstest.New(t, "ours"), tlstest.New(t, "other")
	address := serve(t, ours.Issue(t, "server"))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 something else\r\n")
			c.Close()
		}
	}()
	good := ours.Issue(t, "a")
	foreign := other.Issue(t, "a")
	foreign.CA = ours.File
	wrongCA := good
	wrongCA.CA = other.File
	wrongName := good
	wrongName.ServerName = "elsewhere"
	expired := ours.Issue(t, "old", tlstest.Expired)
	for _, test := range []struct {
		name    string
		files   tlsfile.Files
		address string
		want    string
	}{
		{"right", good, address, ""},
		{"the client trusts another authority", wrongCA, address, "not of the authority in " + other.File},
		{"the server has another name", wrongName, address, "for another name"},
		{"certificate of another authority", foreign, address, "refuses the certificate in " + foreign.Cert},
		{"certificate that has expired", expired, address, "refuses the certificate in " + expired.Cert},
		{"no certificate", tlsfile.Files{CA: ours.File}, address, "give cert and key"},
		{"server without TLS", good, plain.Addr().String(), "speaks no TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := greet(t, test.files, test.address)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if err := expired.Check(); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("check of an expired certificate: %v", err)
	}
}

// TestCommonName: without alternative names the common name counts, and nothing
// less is verified.
func TestCommonName(t *testing.T) {
	ours, other := tlstest.New(t, "ours"), tlstest.New(t, "other")
	for _, test := range []struct {
		name   string
		by     *tlstest.Authority
		server string
		opts   []tlstest.Option
		want   string
	}{
		{"right", ours, "switch id:7", []tlstest.Option{tlstest.NoNames}, ""},
		{"another's", ours, "switch id:8", []tlstest.Option{tlstest.NoNames}, `is for "switch id:8", not for "switch id:7"`},
		{"other names count more than the common name", ours, "switch id:7", []tlstest.Option{func(c *x509.Certificate) { c.DNSNames = []string{"s8"} }}, "not switch id:7"},
		{"expired", ours, "switch id:7", []tlstest.Option{tlstest.NoNames, tlstest.Expired}, "expired"},
		{"other authority", other, "switch id:7", []tlstest.Option{tlstest.NoNames}, "unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := test.by.Issue(t, test.server, test.opts...)
			pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
			if err != nil {
				t.Fatal(err)
			}
			client := tlsfile.Files{CA: ours.File, ServerName: "switch id:7"}
			cfg, err := client.ClientByName("10.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				if c, err := ln.Accept(); err == nil {
					_ = c.(*tls.Conn).Handshake()
				}
			}()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = tlsfile.Shake(t.Context(), conn, cfg)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestRenewed: a certificate that is put in place counts from the next handshake on,
// and one that makes no sense changes nothing.
func TestRenewed(t *testing.T) {
	a := tlstest.New(t, "ours")
	server, client := a.Issue(t, "server"), a.Issue(t, "client")
	address := serve(t, server)
	first, err := greet(t, client, address)
	if err != nil {
		t.Fatal(err)
	}
	a.Issue(t, "server")
	second, err := greet(t, client, address)
	if err != nil || second == first {
		t.Errorf("after the renewal: %v, certificate %s, before %s", err, second, first)
	}
	if err := os.WriteFile(server.Cert, []byte("half of a cert"), 0o644); err != nil {
		t.Fatal(err)
	}
	if third, err := greet(t, client, address); err != nil || third != second {
		t.Errorf("after nonsense: %v, certificate %s, before %s", err, third, second)
	}
}

func TestWrongFiles(t *testing.T) {
	a := tlstest.New(t, "ours")
	good, other := a.Issue(t, "a"), a.Issue(t, "b")
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := os.ReadFile(good.Key)
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		files tlsfile.Files
		want  string
	}{
		{"right", good, ""},
		{"key open to others", tlsfile.Files{Cert: good.Cert, Key: file("open.key", string(key), 0o644)}, "open to other users (mode 0644); close it: chmod 600"},
		{"key without certificate", tlsfile.Files{Key: good.Key}, "has no certificate"},
		{"certificate without key", tlsfile.Files{Cert: good.Cert}, "has no key"},
		{"key of another certificate", tlsfile.Files{Cert: good.Cert, Key: other.Key}, "private key does not match"},
		{"no such file", tlsfile.Files{CA: dir + "/none"}, "authority " + dir + "/none: no such file or directory"},
		{"no certificate in it", tlsfile.Files{CA: file("ca", "hello", 0o644)}, "holds no certificate"},
		{"a folder", tlsfile.Files{CA: dir}, "is no regular file"},
		{"a fifo", tlsfile.Files{CA: fifo}, "is no regular file"},
		{"a device", tlsfile.Files{CA: "/dev/zero"}, "is no regular file"},
		{"too large", tlsfile.Files{CA: file("large", strings.Repeat("x", 1<<20+1), 0o644)}, "larger than"},
	} {
		err := test.files.Check()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct{ name, text, want string }{
		{"right", "swordfish\n", ""}, {"empty", "\n", "is empty"}, {"two lines", "a\nb\n", "more than one line"},
	} {
		got, err := tlsfile.Secret(file("secret", test.text, 0o600))
		if test.want == "" && (err != nil || got != "swordfish") || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	if _, err := tlsfile.Secret(file("group", "swordfish", 0o660)); err == nil {
		t.Error("a secret that its group may write was read")
	}
}

// TestRefusalIsToldToWhoWritesFirst holds a client to the server's reason. The server
// refuses the certificate after the client's handshake, and closes the connection.
func TestRefusalIsToldToWhoWritesFirst(t *testing.T) {
	ours, other := tlstest.New(t, "ours"), tlstest.New(t, "other")
	files := ours.Issue(t, "server")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(ours.File)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	closed := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}).Handshake()
			conn.Close()
		}
		closed <- err
	}()
	mine := other.Issue(t, "client")
	mine.CA = ours.File
	conn, err := mine.Dial(t.Context(), "tcp", ln.Addr().String(), (&net.Dialer{}).DialContext)
	if err != nil {
		t.Fatalf("the server refuses after the handshake, not in it: %v", err)
	}
	defer conn.Close()
	if err := <-closed; err == nil {
		t.Fatal("the server took a certificate of another authority")
	}
	for range 100 { // the first reset the connection, a later one finds it broken
		if _, err = conn.Write([]byte("hello")); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := mine.Explain(err); got == nil || !strings.Contains(got.Error(), "refuses the certificate in "+mine.Cert) {
		t.Errorf("got %v", got)
	}
}
