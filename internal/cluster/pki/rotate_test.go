// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/core/wire"
)

// shown returns an identity that an authority has made, with the bridges to that
// authority.
func (a Authority) shown(t *testing.T, name string, now time.Time) Identity {
	t.Helper()
	i := a.identity(t, name, now)
	i.Bridges = a.Bridges
	return i
}

func rotate(t *testing.T, a Authority, now time.Time) Authority {
	t.Helper()
	next, err := a.Rotate(now)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestRotation: members of two authorities talk to each other while both count; a
// member that trusts the former one alone finds its way by the bridge; who trusts the
// new one alone refuses what the former one's key signs.
func TestRotation(t *testing.T) {
	now := time.Now()
	first := authority(t)
	second := rotate(t, first, now)
	third := rotate(t, second, now)
	old, away := first.identity(t, "a", now), first.identity(t, "away", now)
	old.Trusted = []*x509.Certificate{second.Cert, first.Cert}
	b := second.shown(t, "b", now)
	b.Trusted = []*x509.Certificate{second.Cert, first.Cert}
	after := second.shown(t, "c", now)
	manager := third.shown(t, wire.Manager, now)
	stolen := first.shown(t, wire.Manager, now) // by a thief of the former key
	need := tls.RequireAndVerifyClientCert
	for name, c := range map[string]struct {
		server, client *tls.Config
		refused        string
	}{
		"both count, new to old":            {old.Server(need), b.Client(NodeName("a")), ""},
		"both count, old to new":            {b.Server(need), old.Client(NodeName("b")), ""},
		"by the bridge, at a new server":    {b.Server(need), away.Client(NodeName("b")), ""},
		"by the bridge, a new client":       {away.Server(need), b.Client(NodeName("away")), ""},
		"two rotations later":               {manager.Server(tls.VerifyClientCertIfGiven), NewCredentials(away, time.Now).Anonymous(ManagerName), ""},
		"token of two rotations before":     {manager.Server(tls.VerifyClientCertIfGiven), Joining(NewToken(Hash(first.Cert)), time.Now), ""},
		"token of now":                      {manager.Server(tls.VerifyClientCertIfGiven), Joining(NewToken(Hash(third.Cert)), time.Now), ""},
		"dropped: old client":               {after.Server(need), old.Client(NodeName("c")), "unknown authority"},
		"dropped: old server":               {stolen.Server(need), after.Client(ManagerName), "unknown authority"},
		"new token, manager of the old key": {stolen.Server(tls.VerifyClientCertIfGiven), Joining(NewToken(Hash(second.Cert)), time.Now), ErrOtherManager.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := handshake(t, c.server, c.client)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
}

// TestForgedBridges: a member cannot make itself an authority, and a bridge that was
// not signed by a trusted authority is none.
func TestForgedBridges(t *testing.T) {
	now := time.Now()
	ours, theirs := authority(t), authority(t)
	b := ours.identity(t, "b", now)
	hostile := ours.identity(t, "hostile", now)

	// A certificate for a stranger's authority, signed by a member's key.
	template := *theirs.Cert
	template.AuthorityKeyId = nil
	der, err := x509.CreateCertificate(rand.Reader, &template, hostile.Cert, theirs.Cert.PublicKey, hostile.Key)
	if err != nil {
		t.Fatal(err)
	}
	byMember, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	// A manager's certificate, signed by a member's key.
	leaf, err := Authority{Cert: hostile.Cert, key: hostile.Key}.IssueManager(hostile.Key.Public().(ed25519.PublicKey), now)
	if err != nil {
		t.Fatal(err)
	}
	long := theirs.identity(t, wire.Manager, now)
	for range maxChain {
		long.Bridges = append(long.Bridges, theirs.Cert)
	}
	for name, i := range map[string]Identity{
		"bridge signed by a member":      {Cert: theirs.identity(t, wire.Manager, now).Cert, Authority: theirs.Cert, Bridges: []*x509.Certificate{byMember, hostile.Cert}},
		"certificate signed by a member": {Cert: leaf, Authority: hostile.Cert, Bridges: []*x509.Certificate{ours.Cert}},
		"another cluster's":              {Cert: theirs.identity(t, wire.Manager, now).Cert, Authority: theirs.Cert, Bridges: []*x509.Certificate{ours.Cert}},
		"endless":                        long,
	} {
		if err := NewCredentials(b, time.Now).Check(i.chain(), ManagerName); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestBridgeEnds: a bridge counts no longer than the authority that signed it.
func TestBridgeEnds(t *testing.T) {
	start := time.Now()
	first := authority(t)
	second := rotate(t, first, start.Add(authorityLife/2))
	away := first.identity(t, "away", start)
	at := start.Add(authorityLife - 24*time.Hour)
	clock := func() time.Time { return at }
	manager := second.shown(t, wire.Manager, at)
	if err := NewCredentials(away, clock).Check(manager.chain(), ManagerName); err != nil {
		t.Errorf("before its end: %v", err)
	}
	at = start.Add(authorityLife + 24*time.Hour)
	manager = second.shown(t, wire.Manager, at)
	if err := NewCredentials(away, clock).Check(manager.chain(), ManagerName); err == nil {
		t.Error("after its end it was believed")
	}
	if third := rotate(t, second, at); len(third.Bridges) != 2 {
		t.Errorf("%d bridges, want those to the second authority alone", len(third.Bridges))
	}
}

// TestRotationOnDisk: authority and identity come back with their bridges, and files of
// a version without them are read.
func TestRotationOnDisk(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	first := authority(t)
	if err := first.Save(dir); err != nil {
		t.Fatal(err)
	}
	second := rotate(t, first, now)
	if err := second.Replace(dir); err != nil {
		t.Fatal(err)
	}
	read, err := LoadAuthority(dir)
	if err != nil || !read.Cert.Equal(second.Cert) || len(read.Bridges) != 2 || !read.Bridges[1].Equal(first.Cert) || !read.key.Equal(second.key) {
		t.Fatalf("%d bridges, %v", len(read.Bridges), err)
	}
	i := read.shown(t, "a", now)
	i.Trusted = []*x509.Certificate{second.Cert, first.Cert}
	if err := i.Save(dir + "/own"); err != nil {
		t.Fatal(err)
	}
	again, err := LoadIdentity(dir + "/own")
	if err != nil || len(again.Trusted) != 2 || len(again.Bridges) != 2 || !again.Authority.Equal(second.Cert) {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := writeCert(dir+"/own/"+certFile, i.Cert); err != nil { // as a version before wrote it
		t.Fatal(err)
	}
	if err := writeKey(dir+"/"+authorityKeyFile, second.key); err != nil {
		t.Fatal(err)
	}
	if again, err = LoadIdentity(dir + "/own"); err != nil || !again.Authority.Equal(second.Cert) {
		t.Errorf("%v", err)
	}
	if read, err = LoadAuthority(dir); err != nil || !read.Cert.Equal(second.Cert) {
		t.Errorf("%v", err)
	}
	if err := writeCert(dir+"/"+authorityCertFile, first.Cert); err != nil {
		t.Fatal(err)
	}
	if _, err = LoadAuthority(dir); err == nil || !strings.Contains(err.Error(), "do not belong together") {
		t.Errorf("key of one authority, certificate of another: %v", err)
	}
}

// TestRenewAt: after a third of the life, spread over a tenth of it; what lives longer
// than certificates do now is due at once.
func TestRenewAt(t *testing.T) {
	a, now := authority(t), time.Now().Truncate(time.Second)
	var least, most time.Duration = CertificateLife, 0
	for range 50 {
		in := a.identity(t, "a", now).RenewAt().Sub(now)
		least, most = min(least, in), max(most, in)
	}
	if least < CertificateLife/3 || most > CertificateLife/3+CertificateLife/10 || most-least < CertificateLife/50 {
		t.Errorf("renewed after %v to %v of %v", least, most, CertificateLife)
	}
	template := &x509.Certificate{SerialNumber: serial(), NotBefore: now.Add(-clockSkew), NotAfter: now.Add(365 * 24 * time.Hour)}
	if at := (Identity{Cert: template}).RenewAt(); at.After(now) {
		t.Errorf("a certificate for a year is renewed at %v", at)
	}
}

// TestConnections: what a removed member is served is cut off, what others are is not.
func TestConnections(t *testing.T) {
	var c Connections
	a, b := &closer{}, &closer{}
	on := func(conn *closer) context.Context { return WithConnection(t.Context(), conn) }
	first, second := c.Use(on(a), "a"), c.Use(on(a), "a")
	defer c.Use(on(b), "b")()
	c.Use(t.Context(), "a")() // of no server: nothing to close
	if n := c.CloseUnless(func(m string) bool { return m == "b" }); n != 1 || a.closed != 1 || b.closed != 0 {
		t.Errorf("%d closed: a %d times, b %d", n, a.closed, b.closed)
	}
	first()
	second()
	if n := c.CloseUnless(func(string) bool { return false }); n != 1 || a.closed != 1 || b.closed != 1 {
		t.Errorf("after the end of its requests: %d closed: a %d times, b %d", n, a.closed, b.closed)
	}
}

type closer struct {
	net.Conn
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }
