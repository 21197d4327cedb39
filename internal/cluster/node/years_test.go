// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

const day = 24 * time.Hour

// years is a cluster in this process whose certificates go by a clock of its own.
type years struct {
	*cluster
	clock *clockwork.FakeClock
	begun time.Time
	nodes map[string]*testNode // that are on
	seen  map[string]map[string]bool
}

// newYears makes one with nodes a, b, c and away.
func newYears(t *testing.T) *years {
	t.Helper()
	y := &years{cluster: newCluster(t), begun: time.Now(), nodes: map[string]*testNode{}, seen: map[string]map[string]bool{}}
	y.clock = clockwork.NewFakeClockAt(y.begun)
	y.stop()
	y.opts.Clock = y.clock
	y.start()
	for _, name := range []string{"a", "b", "c", "away"} {
		y.on(name, y.token)
	}
	return y
}

// on starts a node, which joins by token if it never did.
func (y *years) on(name, token string) {
	y.t.Helper()
	o := y.options(name)
	o.Clock, o.Token = y.clock, token
	y.nodes[name] = y.run(o, newAgent(y.world, name, 100e6))
	if y.seen[name] == nil {
		y.seen[name] = map[string]bool{}
	}
}

// asleep has the time of one clock and the timers of another, which stand still while a machine
// sleeps.
type asleep struct {
	clockwork.Clock
	now clockwork.Clock
}

func (a asleep) Now() time.Time { return a.now.Now() }

// TestCertificateOfAMachineThatSlept: a node whose machine sleeps past the time at which its
// certificate is to be renewed renews it when it is awake again.
func TestCertificateOfAMachineThatSlept(t *testing.T) {
	y := &years{cluster: newCluster(t), clock: clockwork.NewFakeClockAt(time.Now())}
	y.stop()
	y.opts.Clock = y.clock
	y.start()
	timers := clockwork.NewFakeClock()
	o := y.options("a")
	o.Clock, o.Token = asleep{timers, y.clock}, y.token
	n := y.run(o, newAgent(y.world, "a", 100e6))
	y.up(1)
	before := n.members.Identity()
	if err := timers.BlockUntilContext(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	y.clock.Advance(before.RenewAt().Sub(y.clock.Now()) + time.Minute)
	if !eventually(func() bool {
		timers.Advance(10 * time.Second)
		return n.members.Identity().Cert.SerialNumber.Cmp(before.Cert.SerialNumber) != 0
	}) {
		t.Errorf("no new certificate; that of before ends at %v", before.Cert.NotAfter)
	}
}

func (y *years) off(name string) {
	y.nodes[name].stop()
	delete(y.nodes, name)
}

func (y *years) day() float64 { return y.clock.Since(y.begun).Hours() / 24 }

// step moves the clock on by half a day. Before any member can renew, and after
// that, every member reaches every other.
func (y *years) step() {
	y.t.Helper()
	y.clock.Advance(12 * time.Hour)
	y.reach()
	y.settled()
}

// reach has every node connect anew to the manager, the bus and every other node.
func (y *years) reach() {
	y.t.Helper()
	for name, n := range y.nodes {
		anew := membership.ManagerAt(y.opts.Listen, n.members.Credentials().Client(pki.ManagerName))
		if _, err := membership.Ask[wire.Info](y.t.Context(), anew, http.MethodGet, "/v1/info", nil); err != nil {
			y.t.Fatalf("day %.1f: %s to the manager: %v", y.day(), name, err)
		}
		anew.HTTP.CloseIdleConnections()
		if onBus.Kind == bus.NATS {
			y.greeted(n)
		}
		for other, peer := range y.nodes {
			if other == name {
				continue
			}
			client := membership.ManagerAt("", n.members.ClientTLS(other)).HTTP
			resp, err := client.Get("https://" + peer.listener.Addr().String() + "/")
			if err != nil {
				y.t.Fatalf("day %.1f: %s to %s: %v", y.day(), name, other, err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			client.CloseIdleConnections()
		}
	}
}

// greeted connects to the bus: the server's first line comes after its handshake.
func (y *years) greeted(n *testNode) {
	y.t.Helper()
	conn, err := tls.Dial("tcp", y.opts.BusListen, n.members.Credentials().Client(pki.ManagerName))
	if err != nil {
		y.t.Fatalf("day %.1f: %s to the bus: %v", y.day(), n.Name(), err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO ") {
		y.t.Fatalf("day %.1f: the bus to %s: %q, %v", y.day(), n.Name(), line, err)
	}
}

// settled waits until every member that is due has a new certificate and the present
// list.
func (y *years) settled() {
	y.t.Helper()
	waits := ""
	for try := range 20000 {
		if waits = y.waits(); waits == "" {
			return
		}
		// A request that was on its way when the clock was moved on is refused: it was
		// signed half a day ago. Its node asks again after a while, by a clock that does
		// not stand still.
		if try%2000 == 1999 {
			y.clock.Advance(time.Minute)
		}
		time.Sleep(time.Millisecond)
	}
	y.t.Fatalf("day %.1f: %s\n%s", y.day(), waits, y.log)
}

// waits names one thing that is not yet as it should be at this time, "" if all is.
func (y *years) waits() string {
	now := y.clock.Now()
	st, err := y.manager.Cluster(y.t.Context())
	if err != nil {
		return err.Error()
	}
	if left := st.Authority.CertificateEnds.Sub(now); left < pki.CertificateLife/2 {
		return fmt.Sprintf("the manager's certificate ends in %v", left)
	}
	for name, n := range y.nodes {
		if id := n.members.Identity(); !now.Before(id.RenewAt()) {
			return fmt.Sprintf("%s has not renewed, its certificate ends in %v", name, id.Cert.NotAfter.Sub(now))
		} else {
			y.seen[name][id.Cert.SerialNumber.String()] = true
		}
		if n.members.Age() != 0 {
			return name + " has not asked for the list of members"
		}
	}
	return ""
}

// move has a container moved, which needs an order that both nodes take for genuine.
func (y *years) move(container, to string) {
	y.t.Helper()
	if !eventually(func() bool { return y.listed(to) }) {
		y.t.Fatalf("day %.1f: the manager does not know %s by its present address", y.day(), to)
	}
	mv, err := y.manager.Migrate(y.t.Context(), api.MoveRequest{Container: container, To: to}, false)
	if err != nil {
		y.t.Fatalf("day %.1f: %v", y.day(), err)
	}
	if mv = y.ended(mv.ID); mv.State != "done" {
		y.t.Fatalf("day %.1f: %+v", y.day(), mv)
	}
	y.only(container, to)
}

// listed reports whether the manager has heard from every node that is on since it
// began to listen where it does now, and has a profile of each.
func (y *years) listed(to string) bool {
	list, err := y.manager.Nodes(y.t.Context())
	for _, n := range list {
		if on := y.nodes[n.Name]; on != nil && (n.State != "up" || n.Address != on.advertised() || n.CPUCapacity == 0) {
			return false
		}
	}
	return err == nil && y.nodes[to] != nil
}

func (y *years) until(day float64) {
	y.t.Helper()
	for y.day() < day {
		y.step()
	}
}

// TestFourHundredDays: the clock moves on by 400 days in steps of 12 hours. At each
// step every node connects anew to the manager, to the bus and to every other node,
// first with the certificates that it has and then again when all that were due are
// renewed. Meanwhile one node is off for 30 days, and the authority is rotated twice:
// once while that node is off, and once while all are there.
func TestFourHundredDays(t *testing.T) {
	if testing.Short() {
		t.Skip("short: takes a minute")
	}
	y := newYears(t)
	y.world.put("a", "web")
	y.up(4)
	first, err := pki.LoadIdentity(filepath.Join(y.opts.Dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := y.manager.NewToken(t.Context(), api.TokenRequest{TTLSeconds: (300 * day).Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	y.until(100)
	y.off("away")
	y.until(105)

	before := y.rotate()
	y.move("web", "b") // by an order of the new key, before all know it
	y.until(108)
	st, _ := y.manager.Cluster(t.Context())
	if r := st.Authority.Rotation; r == nil || r.Renewed != 3 || len(r.Behind) != 1 || r.Behind[0] != "away" {
		t.Errorf("day %.1f: rotation %+v, want it to wait for away alone", y.day(), r)
	}
	y.signed(first, true)
	y.until(120)
	if st, _ = y.manager.Cluster(t.Context()); st.Authority.Rotation != nil {
		t.Errorf("day %.1f: the rotation has not ended: %+v", y.day(), st.Authority.Rotation)
	}
	y.signed(first, false)
	y.until(130)
	if end := y.ends("away"); !end.Before(y.clock.Now()) {
		t.Fatalf("the certificate of the node that was off ends only at %v", end)
	}
	y.on("away", "")
	y.settled() // it finds the manager by the bridge
	y.reach()
	y.move("web", "away")

	y.until(150)
	y.on("late", token.Token) // a token of the authority before
	y.settled()
	y.until(250)
	again := y.rotate()
	y.until(y.day() + 2)
	if st, _ = y.manager.Cluster(t.Context()); st.Authority.Rotation != nil || st.Authority.Hash == again || again == before {
		t.Errorf("day %.1f: with all nodes there the rotation has not ended: %+v", y.day(), st.Authority)
	}
	y.move("web", "a")
	y.until(400)
	y.up(5)
	for name, serials := range y.seen {
		t.Logf("%-5s had %d certificates", name, len(serials))
		if least := map[string]int{"away": 100, "late": 70}[name]; len(serials) < max(least, 110*min(1, 1-least)) {
			t.Errorf("%s had %d certificates", name, len(serials))
		}
	}
}

// rotate begins a rotation and returns the hash of the authority before.
func (y *years) rotate() string {
	y.t.Helper()
	st, err := y.manager.Cluster(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	a, err := y.manager.RotateAuthority(y.t.Context())
	if err != nil || a.Hash == st.Authority.Hash || a.Rotation == nil {
		y.t.Fatalf("%+v, %v", a, err)
	}
	_, err = y.manager.RotateAuthority(y.t.Context())
	refusedAs(y.t, err, refusal.Conflict, "is under way", "weir manager status")
	y.reach()
	return st.Authority.Hash
}

// signed checks whether what a former identity of the manager has signed counts.
func (y *years) signed(by pki.Identity, counts bool) {
	y.t.Helper()
	for name, n := range y.nodes {
		data, err := wire.Seal(by.Key, wire.Manager, wire.Orders.Of(name), "x", time.Now(), &wire.Apply{ID: "x", Workload: "web"})
		if err != nil {
			y.t.Fatal(err)
		}
		if _, err = n.members.Verify(data, wire.Orders.Of(name)); (err == nil) != counts {
			y.t.Errorf("day %.1f: %s on an order by the former key: %v; want it to count: %v", y.day(), name, err, counts)
		}
	}
}

// ends is when the certificate on a node's disk ends.
func (y *years) ends(name string) time.Time {
	y.t.Helper()
	id, err := pki.LoadIdentity(membership.IdentityDir(y.options(name).Dir))
	if err != nil {
		y.t.Fatal(err)
	}
	return id.Cert.NotAfter
}
