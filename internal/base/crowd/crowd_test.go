// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// at is a connection from an address.
type at struct {
	net.Conn
	from string
}

func (a at) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(addrPort(a.from)) }

// queue is a listener that accepts what is put into it.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	conn, ok := <-q
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (queue) Close() error   { return nil }
func (queue) Addr() net.Addr { return nil }

// opener opens connections of a Listener.
type opener struct {
	t *testing.T
	q queue
	l *Listener
}

func newOpener(t *testing.T, most ConnLimits) opener {
	q := make(queue, 1)
	return opener{t, q, Listen(q, most)}
}

// open opens a connection from an address. If it talks it has sent a byte.
func (o opener) open(from string, talks bool) *Conn {
	o.t.Helper()
	here, there := net.Pipe()
	o.t.Cleanup(func() { here.Close(); there.Close() })
	o.q <- at{here, from}
	conn, err := o.l.Accept()
	if err != nil {
		o.t.Fatal(err)
	}
	if talks {
		go there.Write([]byte{1})
		if _, err := conn.Read([]byte{0}); err != nil {
			o.t.Fatal(err)
		}
	}
	return conn.(*Conn)
}

// addrPort reads an address and a port.
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func isClosed(c *Conn) bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.in == nil
}

// TestStrangersMakeRoom: an address with many connections makes room by itself for its new
// ones, and keeps out neither another address nor its own connections that have sent something.
func TestStrangersMakeRoom(t *testing.T) {
	o := newOpener(t, ConnLimits{Unknown: 20, Each: 3, All: 5})
	other := o.open("192.0.2.1:1", false)
	talking := o.open("192.0.2.9:1", true)
	var flood []*Conn
	for i := range 100 {
		flood = append(flood, o.open(fmt.Sprintf("192.0.2.9:%d", 2+i), false))
	}
	if isClosed(other) || isClosed(talking) {
		t.Errorf("closed beside a flood: of another address %v, of its own that talks %v", isClosed(other), isClosed(talking))
	}
	if n, _ := o.l.Open(); n != 11 { // 10 silent ones and the one that talks
		t.Errorf("%d connections are open", n)
	}
	for i, c := range flood {
		if want := i < len(flood)-9; isClosed(c) != want {
			t.Errorf("connection %d of the flood: closed %v", i, !want)
		}
	}
	for i := range 100 { // many that talk
		o.open(fmt.Sprintf("192.0.2.9:%d", 200+i), true)
	}
	if !isClosed(talking) || isClosed(other) {
		t.Error("of those that talk the oldest makes room, and no silent one for them")
	}
	if n, _ := o.l.Open(); n > 20 {
		t.Errorf("%d connections are open", n)
	}
}

// TestKnownPartiesStay: a party that has shown who it is makes no room for strangers, has no
// more than its part, and one that has gone makes room.
func TestKnownPartiesStay(t *testing.T) {
	o := newOpener(t, ConnLimits{Unknown: 4, Each: 3, All: 5})
	var alice []*Conn
	for range 3 {
		c := o.open("192.0.2.1:1", true)
		if err := errors.Join(c.Admit("", "alice"), c.Admit("", "alice")); err != nil {
			t.Fatal(err)
		}
		alice = append(alice, c)
	}
	if err := o.open("192.0.2.1:1", true).Admit("", "alice"); err == nil {
		t.Error("a fourth connection of alice")
	}
	for i := range 10 {
		o.open(fmt.Sprintf("192.0.2.1:%d", i), i%2 == 0)
	}
	for _, who := range []string{"bob", "carol"} {
		if err := o.open("192.0.2.1:1", true).Admit("", who); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err := o.open("192.0.2.1:1", true).Admit("", "dave"); err != nil || !isClosed(alice[0]) {
		t.Errorf("dave, for whom alice makes room: %v", err)
	}
	if err := o.open("192.0.2.1:1", true).Admit("", "bob"); err == nil {
		t.Error("a sixth connection, where no party has two more than bob")
	}
	alice[0].Close()
	alice[1].Close()
	alice[1].Close() // counts once
	if n := o.l.Of("alice"); n != 1 {
		t.Errorf("%d connections of alice", n)
	}
	if err := alice[1].Admit("", "alice"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed connection: %v", err)
	}
	if err := o.open("192.0.2.1:1", true).Admit("", "bob"); err != nil {
		t.Errorf("bob, once there is room: %v", err)
	}
}

// TestClassesHavePlacesOfTheirOwn: users of one class, however many, keep no user of another class
// out, and none of their own who has fewer connections.
func TestClassesHavePlacesOfTheirOwn(t *testing.T) {
	o := newOpener(t, ConnLimits{Unknown: 4, Each: 4, All: 16})
	var first *Conn
	for user := range 8 {
		for range 4 {
			c := o.open("192.0.2.1:1", true)
			_ = c.Admit("view", fmt.Sprint("uid ", user)) // of the later users the last ones are refused
			if first == nil {
				first = c
			}
		}
	}
	if n := o.l.Of("uid 7"); n == 0 || !isClosed(first) {
		t.Errorf("the last user has %d connections, the first has made room: %v", n, isClosed(first))
	}
	if _, n := o.l.Open(); n != 16 {
		t.Errorf("%d connections are open", n)
	}
	for range 4 {
		if err := o.open("192.0.2.1:1", true).Admit("change", "uid 0"); err != nil {
			t.Errorf("root: %v", err)
		}
	}
}

// TestManyAddresses: of strangers with one connection each, those that the server waits for
// make room before those that it works for, and none whose request is here as a whole does.
func TestManyAddresses(t *testing.T) {
	o := newOpener(t, ConnLimits{Unknown: 20})
	works := o.open("192.0.2.1:1", true) // its handshake is being computed
	asked := o.open("192.0.2.2:1", true)
	asked.Asked()
	for i := range 1000 {
		c := o.open(fmt.Sprintf("198.51.%d.%d:1", i/250, i%250), true)
		waiting := make(chan struct{})
		go func() { close(waiting); _, _ = c.Read([]byte{0}) }()
		<-waiting
		for c.waits.Load() == 0 && !isClosed(c) {
			runtime.Gosched()
		}
	}
	if isClosed(works) || isClosed(asked) {
		t.Errorf("closed: one that is worked for %v, one that has asked %v", isClosed(works), isClosed(asked))
	}
	for i := range 100 {
		o.open(fmt.Sprintf("192.0.2.2:%d", 2+i), true).Asked()
	}
	if n, _ := o.l.Open(); n > 30 || !isClosed(asked) {
		t.Errorf("%d connections are open; of those that have asked the oldest is closed: %v", n, isClosed(asked))
	}
}

// TestUsers: the connections of a user make room for each other, and where all places are
// taken, those of the user with the most do.
func TestUsers(t *testing.T) {
	o := newOpener(t, ConnLimits{Each: 4, All: 6})
	gone := errors.New("gone")
	o.l.users = func(c net.Conn) (string, error) {
		user := c.(at).from
		if user == "192.0.2.66:1" {
			return "", gone
		}
		return user, nil
	}
	var first []*Conn
	for range 5 {
		first = append(first, o.open("192.0.2.1:1", false))
	}
	if !isClosed(first[0]) || isClosed(first[1]) {
		t.Error("of five connections the first makes room")
	}
	here, there := net.Pipe()
	o.q <- at{here, "192.0.2.66:1"} // is closed, and the next is accepted
	done := make(chan *Conn)
	go func() { conn, _ := o.l.Accept(); done <- conn.(*Conn) }()
	if _, err := there.Read([]byte{0}); err == nil {
		t.Error("a connection of no user stays")
	}
	another, _ := net.Pipe()
	o.q <- at{another, "192.0.2.2:1"}
	second := <-done
	for range 2 {
		o.open("192.0.2.3:1", false)
	}
	if isClosed(second) || !isClosed(first[1]) || isClosed(first[2]) {
		t.Error("the user with the most connections does not make room")
	}
}

func TestShare(t *testing.T) {
	for address, want := range map[string]string{"192.0.2.7:5": "192.0.2.7", "[::ffff:192.0.2.7]:5": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64"} {
		if got := Share(net.TCPAddrFromAddrPort(addrPort(address))); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := Share(&net.UnixAddr{Name: "@"}); got != "@" {
		t.Errorf("a unix socket: %s", got)
	}
}

// TestLines: some lines come at once, later ones once in LinesEvery with the number of those
// that were left out.
func TestLines(t *testing.T) {
	var l Lines
	now := time.Now()
	for range LinesAtOnce {
		if omitted, due := l.Due(now); omitted != 0 || !due {
			t.Errorf("one of the first lines: %d, %v", omitted, due)
		}
	}
	for _, x := range []struct {
		after   time.Duration
		omitted int
		due     bool
	}{{1, 0, false}, {LinesEvery / 2, 0, false}, {LinesEvery, 2, true}, {LinesEvery + 1, 0, false}, {2*LinesEvery + 1, 1, true}} {
		if omitted, due := l.Due(now.Add(x.after)); omitted != x.omitted || due != x.due {
			t.Errorf("after %v: %d, %v", x.after, omitted, due)
		}
	}
}

// TestLinesOf: what there is to say of one thing leaves out no line about another; the number of
// things that are told apart is bounded.
func TestLinesOf(t *testing.T) {
	var l LinesOf
	now := time.Now()
	for range LinesAtOnce + 3 {
		l.Due("a", now)
	}
	if _, due := l.Due("b", now); !due {
		t.Error("b waits for a")
	}
	if omitted, due := l.Due("a", now.Add(LinesEvery)); omitted != 3 || !due {
		t.Errorf("%d, %v", omitted, due)
	}
	for i := range maxParties + 100 {
		l.Due(strconv.Itoa(i), now)
	}
	if n := len(l.about); n > maxParties+1 {
		t.Errorf("%d things", n)
	}
}

// TestRates: a party uses up its own allowance only, and gets it back with time; the number of
// allowances is bounded.
func TestRates(t *testing.T) {
	r, now := Rates{Burst: 3, Every: time.Second}, time.Now()
	take := func(party string, want bool) {
		t.Helper()
		if had := r.Has(party, now); had != want {
			t.Errorf("%s has one: %v", party, had)
		}
		if got := r.Take(party, now); got != want {
			t.Errorf("%s takes one: %v", party, got)
		}
	}
	for range 3 {
		take("a", true)
	}
	take("a", false)
	take("b", true)
	now = now.Add(time.Second)
	take("a", true)
	take("a", false)
	for i := range 3 * maxParties {
		r.Take(fmt.Sprint(i), now)
	}
	if len(r.parties) > maxParties+1 {
		t.Errorf("%d allowances", len(r.parties))
	}
	now = now.Add(time.Minute)
	take("new", true)
	if len(r.parties) > 1 {
		t.Errorf("%d allowances once all are whole", len(r.parties))
	}
}

// TestComplaints: what net/http says of its clients is some lines, and a panic is always one.
func TestComplaints(t *testing.T) {
	var out bytes.Buffer
	srv := NewServer(nil, slog.New(slog.NewTextHandler(&out, nil)), slog.LevelWarn)
	for range 1000 {
		srv.ErrorLog.Printf("http: TLS handshake error from 192.0.2.1:1: %s", strings.Repeat("x", 1000))
	}
	srv.ErrorLog.Print("http: panic serving 192.0.2.1:1: index out of range")
	if n := strings.Count(out.String(), "\n"); n != LinesAtOnce+1 || out.Len() > 4<<10 || !strings.Contains(out.String(), "index out of range") {
		t.Errorf("%d lines: %s", n, out.String())
	}
}
