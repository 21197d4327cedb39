// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

func authority(t *testing.T) Authority {
	t.Helper()
	a, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a Authority) identity(t *testing.T, name string, now time.Time) Identity {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	i := Identity{Authority: a.Cert, Key: key}
	if name == wire.Manager {
		i.Cert, err = a.IssueManager(i.Public(), now)
	} else {
		request, failed := Request(key)
		if failed != nil {
			t.Fatal(failed)
		}
		i.Cert, err = a.IssueNode(name, request, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// handshake connects two members; the error is the first of both ends.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	deadline := time.Now().Add(5 * time.Second)
	a.SetDeadline(deadline)
	b.SetDeadline(deadline)
	s, c := tls.Server(a, server), tls.Client(b, client)
	failed := make(chan error, 1)
	go func() {
		err := c.Handshake()
		if err == nil {
			_, err = io.ReadAll(c) // learns of the server's refusal
		}
		c.Close()
		failed <- err
	}()
	err := s.Handshake()
	state := s.ConnectionState()
	s.Close()
	a.Close()
	return state, errors.Join(err, <-failed)
}

func TestWhoTalksToWhom(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	now := time.Now()
	manager, a, b := ours.identity(t, wire.Manager, now), ours.identity(t, "a", now), ours.identity(t, "b", now)
	old := ours.identity(t, "a", now.Add(-2*CertificateLife))
	stranger := theirs.identity(t, "a", now)
	need := tls.RequireAndVerifyClientCert
	for name, c := range map[string]struct {
		server, client *tls.Config
		refused        string
	}{
		"node to manager":          {manager.Server(need), a.Client(ManagerName), ""},
		"node to node":             {b.Server(need), a.Client(NodeName("b")), ""},
		"node takes b for manager": {b.Server(need), a.Client(ManagerName), "not manager.weir"},
		"node takes b for a":       {b.Server(need), a.Client(NodeName("a")), "not a.node.weir"},
		"another cluster's node":   {manager.Server(need), stranger.Client(ManagerName), "unknown authority"},
		"expired":                  {manager.Server(need), old.Client(ManagerName), "expired"},
		"no certificate":           {manager.Server(need), Joining(Token{Authority: Hash(ours.Cert)}, time.Now), "didn't provide a certificate"},
		"joining":                  {manager.Server(tls.VerifyClientCertIfGiven), Joining(Token{Authority: Hash(ours.Cert)}, time.Now), ""},
		"joining by a wrong token": {manager.Server(tls.VerifyClientCertIfGiven), Joining(Token{Authority: Hash(theirs.Cert)}, time.Now), ErrOtherManager.Error()},
		"joining at a node":        {b.Server(tls.VerifyClientCertIfGiven), Joining(Token{Authority: Hash(ours.Cert)}, time.Now), "not manager.weir"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := handshake(t, c.server, c.client)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
	state, err := handshake(t, manager.Server(need), a.Client(ManagerName))
	if err != nil {
		t.Fatal(err)
	}
	if node, _, err := Node(state); err != nil || node != "a" {
		t.Errorf("node %q, %v", node, err)
	}
	state, err = handshake(t, b.Server(need), manager.Client(NodeName("b")))
	if err != nil {
		t.Fatal(err)
	}
	if node, _, err := Node(state); err == nil {
		t.Errorf("the manager was taken for node %q", node)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir() + "/sub"
	if _, err := LoadAuthority(dir); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	a := authority(t)
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := authority(t).Save(dir); err == nil {
		t.Error("an authority was overwritten")
	}
	again, err := LoadAuthority(dir)
	if err != nil || !again.Cert.Equal(a.Cert) {
		t.Fatalf("%v", err)
	}
	own := t.TempDir()
	if _, err := LoadIdentity(own); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	node := again.identity(t, "a", time.Now())
	if err := node.Save(own); err != nil {
		t.Fatal(err)
	}
	read, err := LoadIdentity(own)
	if err != nil || read.Name() != "a" || !read.Key.Equal(node.Key) {
		t.Errorf("%v %v", read.Name(), err)
	}
	if _, err := again.IssueNode(wire.Manager, nil, time.Now()); err == nil {
		t.Error("a node was called manager")
	}
	if _, err := again.IssueNode("b", []byte("nonsense"), time.Now()); err == nil {
		t.Error("nonsense was signed")
	}
	if _, err := again.IssueNode("b", make([]byte, bound.Body+1), time.Now()); err == nil || !strings.Contains(err.Error(), "65536 are the most") {
		t.Errorf("a request beyond the bound is read: %v", err)
	}
}

func TestTokens(t *testing.T) {
	want := NewToken(Hash(authority(t).Cert))
	got, err := ParseToken(" " + want.String() + "\n")
	if err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "x", want.String()[1:], want.String()[:len(want.String())-1], want.String() + ".x", "weir1.a.b.c"} {
		if _, err := ParseToken(bad); err == nil || bad != "" && len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
