// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/core/wire"
	"weir/internal/test/logtest"
)

// secured is a broker with a listener of each kind, and the authorities and
// certificates that clients need.
type secured struct {
	*bustest.Broker
	ours, other *tlstest.Authority
	client      tlsfile.Files // of ours
	dir         string
}

const password = "sw0rd \"fish\", 7"

func newSecured(t *testing.T, more string) *secured {
	t.Helper()
	s := &secured{ours: tlstest.New(t, "ours"), other: tlstest.New(t, "other"), dir: t.TempDir()}
	s.client = s.ours.Issue(t, "a")
	server := s.ours.Issue(t, "broker")
	s.Broker = bustest.StartBrokerWith(t, func(port int) string { return bustest.Secured(t, port, s.dir, server, password) + more },
		"SCRAM-SHA-256=[name=a,password=plain256]", "SCRAM-SHA-512=[name=a,password=plain512]",
		"SCRAM-SHA-512=[name=manager,password=manager512]", "SCRAM-SHA-512=[name=b,password=b512]")
	return s
}

// secret returns the path of a file with a password.
func (s *secured) secret(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp(s.dir, "secret")
	if err == nil {
		_, err = f.WriteString(text + "\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return f.Name()
}

func (s *secured) login(t *testing.T, mechanism, user, text string) Security {
	return Security{TLS: true, Files: tlsfile.Files{CA: s.ours.File}, Mechanism: mechanism, User: user, PasswordFile: s.secret(t, text)}
}

// door is one way into the secured broker, as a bed of the suite.
type door struct {
	*secured
	port   int
	secure Security
}

func (d door) Manager(t *testing.T) bus.Admin {
	t.Helper()
	return d.connect(t, wire.Manager, &bustest.CutDialer{})
}

func (d door) Node(t *testing.T, name string, cable *bustest.CutDialer) bus.Bus {
	t.Helper()
	return d.connect(t, name, cable)
}

func (d door) connect(t *testing.T, name string, cable *bustest.CutDialer) *Bus {
	t.Helper()
	c, err := dial([]string{d.At(d.port)}, name, d.secure, func(_ context.Context, network, address string) (net.Conn, error) {
		return cable.Dial(network, address)
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestBusSecured: the bus keeps its promises over TLS, mutual TLS, SCRAM and PLAIN.
// The whole suite runs over mutual TLS and SCRAM-SHA-512, with -long over all.
func TestBusSecured(t *testing.T) {
	for _, way := range []struct {
		name string
		long bool
		port int
		how  func(t *testing.T, s *secured) Security
	}{
		{"TLS", true, bustest.TLSPort, func(t *testing.T, s *secured) Security {
			return Security{TLS: true, Files: tlsfile.Files{CA: s.ours.File}}
		}},
		{"MutualTLS", false, bustest.MutualPort, func(t *testing.T, s *secured) Security { return Security{TLS: true, Files: s.client} }},
		{"ScramSHA256", true, bustest.SASLPort, func(t *testing.T, s *secured) Security { return s.login(t, Scram256, "a", "plain256") }},
		{"ScramSHA512", false, bustest.SASLPort, func(t *testing.T, s *secured) Security { return s.login(t, Scram512, "a", "plain512") }},
		{"Plain", true, bustest.SASLPort, func(t *testing.T, s *secured) Security { return s.login(t, Plain, "a", password) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.long && !*bustest.Long {
				t.Skip("SKIP: -long runs the suite over this as well; TestWaysIn connects by it")
			}
			s := newSecured(t, "")
			bustest.Run(t, door{s, way.port, way.how(t, s)})
		})
	}
}

// TestWaysIn: each right way in works, and each wrong thing is one clear error.
func TestWaysIn(t *testing.T) {
	s := newSecured(t, "")
	foreign := s.other.Issue(t, "a")
	foreign.CA = s.ours.File
	untrusted := s.client
	untrusted.CA = s.other.File
	misnamed := s.client
	misnamed.ServerName = "k1.example"
	expired := s.ours.Issue(t, "old")
	tlsOnly := Security{TLS: true, Files: tlsfile.Files{CA: s.ours.File}}
	scramInClear := Security{Mechanism: Scram512, User: "a", PasswordFile: s.secret(t, "plain512")}
	for _, test := range []struct {
		name   string
		port   int
		secure Security
		want   string
	}{
		{"in clear", bustest.ClearPort, Security{}, ""},
		{"TLS", bustest.TLSPort, tlsOnly, ""},
		{"mutual TLS", bustest.MutualPort, Security{TLS: true, Files: s.client}, ""},
		{"SCRAM-SHA-256", bustest.SASLPort, s.login(t, Scram256, "a", "plain256"), ""},
		{"SCRAM-SHA-512", bustest.SASLPort, s.login(t, Scram512, "a", "plain512"), ""},
		{"PLAIN", bustest.SASLPort, s.login(t, Plain, "a", password), ""},

		{"wrong password, SCRAM", bustest.SASLPort, s.login(t, Scram512, "a", "guess"), "does not accept user a"},
		{"wrong password, PLAIN", bustest.SASLPort, s.login(t, Plain, "a", "guess"), "does not accept user a"},
		{"no such user", bustest.SASLPort, s.login(t, Scram256, "nobody", "plain256"), "does not accept user nobody"},
		{"user of another mechanism", bustest.SASLPort, s.login(t, Scram256, "b", "b512"), "does not accept user b"},
		{"no SASL where it is expected", bustest.SASLPort, tlsOnly, "it may expect SASL here"},
		{"certificate of another authority", bustest.MutualPort, Security{TLS: true, Files: foreign}, "refuses the certificate in " + foreign.Cert},
		{"no certificate", bustest.MutualPort, tlsOnly, "give cert and key"},
		{"broker of another authority", bustest.TLSPort, Security{TLS: true, Files: untrusted}, "not of the authority in " + s.other.File},
		{"broker with another name", bustest.TLSPort, Security{TLS: true, Files: misnamed}, "for another name"},
		{"in clear where TLS is expected", bustest.TLSPort, Security{}, "expects TLS at this address"},
		{"in clear where SASL over TLS is expected", bustest.SASLPort, scramInClear, "expects TLS at this address"},
		{"TLS where nobody speaks it", bustest.ClearPort, tlsOnly, "does it speak TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := door{s, test.port, test.secure}.connect(t, "a", &bustest.CutDialer{})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := c.Ping(ctx)
			t.Log(err)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if (c.Problem() != "") != (test.want != "") {
				t.Errorf("problem: %q", c.Problem())
			}
			for _, secret := range []string{"guess", "plain256", "plain512", "sw0rd"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows the password: %v", err)
				}
			}
		})
	}
	// It expires while the broker and the client run: the file is checked when a
	// member starts, and refused by the broker at the next connection.
	c := door{s, bustest.MutualPort, Security{TLS: true, Files: expired}}.connect(t, "a", &bustest.CutDialer{})
	s.ours.Issue(t, "old", tlstest.Expired)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ping(ctx); err == nil || !strings.Contains(err.Error(), "refuses the certificate") {
		t.Errorf("expired certificate: %v", err)
	}
	if _, err := Dial([]string{s.Address}, "a", Security{TLS: true, Files: expired}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("expired certificate at the start: %v", err)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed, open := file("closed", 0o600), file("open", 0o644)
	for _, test := range []struct {
		name   string
		secure Security
		want   string
	}{
		{"nothing", Security{}, ""},
		{"SCRAM in clear", Security{Mechanism: Scram512, User: "a", PasswordFile: closed}, ""},
		{"PLAIN in clear", Security{Mechanism: Plain, User: "a", PasswordFile: closed}, "give kafka: {tls: {ca: FILE}} as well, or use SCRAM-SHA-512"},
		{"other mechanism", Security{Mechanism: "GSSAPI", User: "a", PasswordFile: closed}, `"GSSAPI": not known`},
		{"no mechanism", Security{User: "a"}, "mechanism is missing"},
		{"no user", Security{Mechanism: Scram256, PasswordFile: closed}, "user is missing"},
		{"no password", Security{Mechanism: Scram256, User: "a"}, "password_file is missing"},
		{"password that others can read", Security{Mechanism: Scram256, User: "a", PasswordFile: open}, "is open to other users (mode 0644); close it: chmod 600 " + open},
		{"no such file", Security{Mechanism: Scram256, User: "a", PasswordFile: dir + "/none"}, "no such file"},
		{"files without TLS", Security{Files: tlsfile.Files{CA: closed}}, "TLS is not used"},
		{"no authority in the file", Security{TLS: true, Files: tlsfile.Files{CA: closed}}, "holds no certificate"},
	} {
		_, err := Dial([]string{"127.0.0.1:1"}, "a", test.secure, slog.New(slog.DiscardHandler))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// acl allows a principal an operation on what has a name, or begins with it.
type acl struct {
	user    string
	kind    kmsg.ACLResourceType
	name    string
	prefix  bool
	allowed []kmsg.ACLOperation
}

const (
	topics  = kmsg.ACLResourceTypeTopic
	groups  = kmsg.ACLResourceTypeGroup
	reading = kmsg.ACLOperationRead
	writing = kmsg.ACLOperationWrite
)

// managerACLs and nodeACLs are the tables in docs/cluster.md.
func managerACLs(user string) []acl {
	list := []acl{{user, groups, "weir-", true, []kmsg.ACLOperation{reading, kmsg.ACLOperationDelete}}}
	for _, letter := range []string{"M_", "H_", "R_", "L_"} {
		list = append(list, acl{user, topics, letter, true, []kmsg.ACLOperation{reading, writing, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete}})
	}
	return list
}

func nodeACLs(user, node string) []acl {
	return []acl{
		{user, topics, "M_" + node, false, []kmsg.ACLOperation{writing}},
		{user, topics, "H_" + node, false, []kmsg.ACLOperation{writing}},
		{user, topics, "R_" + node, false, []kmsg.ACLOperation{writing}},
		{user, topics, "L_" + node, false, []kmsg.ACLOperation{reading}},
		{user, groups, "weir-" + node + "-L", false, []kmsg.ACLOperation{reading}},
	}
}

// allow makes the lists, as the administrator.
func (s *secured) allow(t *testing.T, lists ...[]acl) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.At(bustest.ClearPort)))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	request := kmsg.NewPtrCreateACLsRequest()
	for _, list := range lists {
		for _, a := range list {
			for _, operation := range a.allowed {
				c := kmsg.NewCreateACLsRequestCreation()
				c.ResourceType, c.ResourceName, c.ResourcePatternType = a.kind, a.name, kmsg.ACLResourcePatternTypeLiteral
				if a.prefix {
					c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
				}
				c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+a.user, "*", operation, kmsg.ACLPermissionTypeAllow
				request.Creations = append(request.Creations, c)
			}
		}
	}
	response, err := request.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range response.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // until the authorizer has them
}

// TestAccessControlLists: with the lists of docs/cluster.md the cluster works, and a
// node can neither speak for another, nor read or give its orders, nor make topics.
func TestAccessControlLists(t *testing.T) {
	// In clear, and so without a name, only the test's administrator comes.
	s := newSecured(t, "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=false\n")
	connect := func(member string) *Bus {
		return door{s, bustest.SASLPort, s.login(t, Scram512, member, map[string]string{"a": "plain512", "b": "b512", wire.Manager: "manager512"}[member])}.connect(t, member, &bustest.CutDialer{})
	}
	publish := func(b *Bus, subject wire.Subject, id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		return b.Publish(ctx, subject, id, []byte("x"))
	}
	m, a := connect(wire.Manager), connect("a")
	if err := m.Admit(t.Context(), "a"); !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), "do not let user manager do this") {
		t.Errorf("the manager without a list: %v", err)
	}
	s.allow(t, managerACLs(wire.Manager), nodeACLs("a", "a"), nodeACLs("b", "b"))
	for _, node := range []string{"a", "b"} {
		if err := m.Admit(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	// What each needs.
	got := make(chan bus.Delivery, 100)
	take := func(_ context.Context, m bus.Delivery) error { got <- m; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, topic := range []wire.Topic{wire.Profiles, wire.Heartbeats, wire.Reports} {
		go m.Subscribe(ctx, wire.Manager, topic.All(), take)
	}
	go a.Subscribe(ctx, "a", "L.a", take)
	want := map[wire.Subject]*Bus{"M.a": a, "H.a": a, "R.a": a, "L.a": m}
	for subject, from := range want {
		if err := publish(from, subject, "1"); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for len(want) > 0 {
		select {
		case in := <-got:
			delete(want, in.Subject)
		case <-time.After(60 * time.Second):
			t.Fatalf("not arrived: %v", want)
		}
	}
	// What a node must not do.
	for _, subject := range []wire.Subject{"M.b", "H.b", "R.b", "L.a", "L.b", "M.c"} {
		if err := publish(a, subject, "forged"); !errors.Is(err, bus.ErrRefused) {
			t.Errorf("a published on %s: %v", subject, err)
		}
	}
	if err := publish(m, "L.b", "2"); err != nil {
		t.Fatal(err)
	}
	for _, durable := range []string{"a", "b", "spy"} {
		log := &logtest.Buffer{}
		spy, err := Dial([]string{s.At(bustest.SASLPort)}, "a", a.secure, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		stolen := make(chan bus.Delivery, 1)
		spying, stop := context.WithTimeout(t.Context(), 5*time.Second)
		_ = spy.Subscribe(spying, durable, "L.b", func(_ context.Context, m bus.Delivery) error { stolen <- m; return nil })
		stop()
		spy.Close()
		select {
		case m := <-stolen:
			t.Errorf("a, as %s, read an order for b: %+v", durable, m)
		default:
		}
		if !strings.Contains(log.String(), "do not let user a do this") {
			t.Errorf("a, as %s, is not told that it may not read: %s", durable, log)
		}
	}
	// What was removed is not made anew by the node.
	if err := m.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := publish(a, "M.a", "late"); err == nil {
		t.Error("a removed node made its topic anew")
	}
}
