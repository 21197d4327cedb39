// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/warrant"
	"weir/internal/cluster/wire"
)

var seed = flag.Uint64("seed", 1, "what a hostile node does in which order")

// managerKey is the manager's, for orders that are genuine.
func (c *cluster) managerKey() ed25519.PrivateKey {
	c.t.Helper()
	own, err := pki.LoadIdentity(filepath.Join(c.opts.Dir, "own"))
	if err != nil {
		c.t.Fatal(err)
	}
	return own.Key
}

// seal seals what the manager orders a node.
func (c *cluster) seal(key ed25519.PrivateKey, node string, m wire.Message) []byte {
	c.t.Helper()
	data, err := wire.Seal(key, wire.Manager, wire.Orders.Of(node), "x", time.Now(), m)
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// orderOf describes a container of the world's as the order of a move.
func orderOf(move, container, from, to string) migrate.Order {
	return migrate.Order{Move: move, From: from, To: to, Approach: migrate.ApproachLayer, Lease: time.Minute,
		Container: migrate.Container{ID: "id-" + container, Name: container, Engine: "docker", Running: true, Image: "img", ImageID: "sha256:1"}}
}

// granted is a proposal with the grant for it.
func granted(o migrate.Order, deadline time.Time) (wire.Grant, []byte) {
	text, err := json.Marshal(warrant.Proposal{Order: o})
	if err != nil {
		panic(err)
	}
	return wire.Grant{Manifest: warrant.ManifestOf(o, text), From: o.From, To: o.To, Deadline: deadline}, text
}

// attack is one call of a hostile node.
type attack struct {
	target     *testNode
	verb       string
	permission []byte
	body       []byte
	statement  string // header and trailer
}

// send makes the call; the certificate is that of node a.
func (x attack) send(t *testing.T, client *http.Client) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "https://"+x.target.listener.Addr().String()+remote.Path+x.verb, io.MultiReader(bytes.NewReader(x.body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(orderHeader, base64.StdEncoding.EncodeToString(x.permission))
	if x.statement != "" {
		req.Header.Set(statementHeader, x.statement)
		req.Trailer = http.Header{statementHeader: {x.statement}}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s to %s: %v", x.verb, x.target.Name(), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// callBody is a call as JSON, doing or receiving.
func callBody(in remote.Call, part string) []byte {
	text, _ := json.Marshal(in)
	if in.Part == nil {
		return text
	}
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), part...)
}

// refusedCalls are those that a node has counted.
func (n *testNode) refusedCalls() (sum uint64) {
	n.Node.opts.standing.mu.Lock()
	defer n.Node.opts.standing.mu.Unlock()
	for _, count := range n.Node.opts.standing.refusals {
		sum += count
	}
	return sum
}

// hold is all that a node has, as text: its containers, policies and files. What waits
// to be said to the manager is left out.
func (n *testNode) hold(t *testing.T) string {
	t.Helper()
	w := n.agent.world
	w.mu.Lock()
	lines := []string{fmt.Sprint("containers ", w.has[n.Name()]), fmt.Sprint("copies ", w.copy)}
	w.mu.Unlock()
	n.agent.mu.Lock()
	lines = append(lines, fmt.Sprint("policies ", text(t, n.agent.set)), fmt.Sprint("mins ", n.agent.min))
	n.agent.mu.Unlock()
	err := filepath.WalkDir(n.opts.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "/outbox/") || entry.Name() == "members.json" { // the manager's answer, with its time
			return err
		}
		content, err := os.ReadFile(path)
		sum := sha256.Sum256(content)
		lines = append(lines, path+" "+hex.EncodeToString(sum[:]))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestOnlyTargetStepsAreServed: with a genuine order, and with a genuine grant, a node
// gets another one to do nothing to a container that runs there: no freeze, which ends
// it, no commit and push, which publish its files, no forget, which deletes its volumes.
func TestOnlyTargetStepsAreServed(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.put("b", "db")
	c.up(2)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.clientTLS("b")}}
	soon := time.Now().Add(time.Minute)
	grant, text := granted(orderOf("m-1", "db", "a", "b"), soon)
	sealed := c.seal(c.managerKey(), "a", grant)
	if status, answer := (attack{target: b, verb: "begin", permission: sealed, body: text}).send(t, client); status != http.StatusOK {
		t.Fatalf("begin: %d %s", status, answer)
	}
	before := b.hold(t)
	for name, permission := range map[string][]byte{
		"order": c.seal(c.managerKey(), "a", wire.Move{ID: "m-1", Container: "db", From: "a", To: "b", Deadline: soon}), "grant": sealed,
	} {
		for _, step := range []migrate.Step{migrate.StepFreeze, migrate.StepCommit, migrate.StepPush, migrate.StepPushImage, migrate.StepForget, migrate.StepThaw, migrate.StepPreCopy} {
			status, answer := attack{target: b, verb: "do", permission: permission, body: callBody(remote.Call{Step: step}, "")}.send(t, client)
			if status == http.StatusOK {
				t.Errorf("b has taken the step %s by an %s: %s", step, name, answer)
			}
		}
		if status, answer := (attack{target: b, verb: "describe", permission: permission, body: []byte(`{"name":"db"}`)}).send(t, client); status == http.StatusOK {
			t.Errorf("b describes its containers to a by an %s: %s", name, answer)
		}
	}
	if after := b.hold(t); after != before {
		t.Errorf("b had\n%s\nand has\n%s", before, after)
	}
	c.only("db", "b")
}

// TestOldOrders: an order is good for minutes, at the target too, and a grant is used
// once.
func TestOldOrders(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.clientTLS("b")}}
	old := time.Now().Add(-200 * 24 * time.Hour)
	move := c.seal(c.managerKey(), "a", wire.Move{ID: "m-1", Container: "web", From: "a", To: "b", Deadline: old})
	grant, text := granted(orderOf("m-1", "web", "a", "b"), old)
	sealed := c.seal(c.managerKey(), "a", grant)
	for _, x := range []attack{
		{verb: "facts", permission: move, body: []byte("{}")}, {verb: "begin", permission: sealed, body: text},
		{verb: "do", permission: sealed, body: callBody(remote.Call{Step: migrate.StepCreate}, "")},
	} {
		x.target = b
		if status, answer := x.send(t, client); status == http.StatusOK {
			t.Errorf("b has obeyed an order 200 days past its deadline: %s %s", x.verb, answer)
		}
	}
	c.seen(1)
	c.moved("web", "b")
	c.moved("web", "a")
	// The first move's grant again, in the hands of its source.
	files, err := filepath.Glob(filepath.Join(a.opts.Dir, "moves", "m-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	var k kept
	if err == nil {
		err = json.Unmarshal(content, &k)
	}
	if err != nil || len(k.Grant) == 0 {
		t.Fatalf("no grant is kept: %v", err)
	}
	before := b.hold(t)
	for _, step := range []migrate.Step{migrate.StepCreate, migrate.StepRestore, migrate.StepConfirm, migrate.StepDiscard} {
		if status, answer := (attack{target: b, verb: "do", permission: k.Grant, body: callBody(remote.Call{Step: step}, "")}).send(t, client); status == http.StatusOK {
			t.Errorf("%s was done again by a grant that was used: %s", step, answer)
		}
	}
	if after := b.hold(t); after != before {
		t.Errorf("b had\n%s\nand has\n%s", before, after)
	}
}

// TestPolicyByReport: a node reports a move as done that it has not made, with a policy
// for a container of that name that the target has had all along.
func TestPolicyByReport(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "db")
	c.up(2)
	c.seen(1)
	gate := make(chan struct{})
	defer close(gate)
	c.world.mu.Lock()
	c.world.slow[migrate.StepPullImage] = gate
	c.world.mu.Unlock()
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "db", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.log.wait(t, "move granted", "move="+mv.ID)
	c.world.put("b", "db")
	body := fmt.Sprintf(`{"id":%q,"node":"a","seq":%d,"state":"done","policy":{"max":"1kbit"}}`, mv.ID, time.Now().Add(time.Hour).UnixNano())
	if err := a.say(a.reports, wire.Reports, "forged", rawMessage{"move-report", body}, false); err != nil {
		t.Fatal(err)
	}
	c.log.wait(t, "move ended", "state=done")
	// And it says in the place of the target that everything holds there.
	if err := a.say(a.reports, wire.Reports, "forged-2", wire.Arrived{Move: mv.ID, Node: "a"}, false); err != nil {
		t.Fatal(err)
	}
	c.log.wait(t, "report about a move that is not known", "node=a")
	time.Sleep(300 * time.Millisecond)
	if has := b.agent.has(t, "db"); has != "{}" {
		t.Errorf("b's own db has %s by a report of a's", has)
	}
}

// rawMessage is a message with a body of any form.
type rawMessage struct{ kind, body string }

func (m rawMessage) Kind() string                 { return m.kind }
func (rawMessage) Check() error                   { return nil }
func (m rawMessage) MarshalJSON() ([]byte, error) { return []byte(m.body), nil }

// TestAppliesAreAboutContainers: the manager changes policies of containers; the host's
// and that of migrations are their own operator's.
func TestAppliesAreAboutContainers(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.world.put("a", "host") // so the double of an agent knows such a workload
	c.up(1)
	a.agent.mu.Lock()
	a.agent.kinds = map[string]string{"host": "host"}
	a.agent.mu.Unlock()
	o := wire.Apply{ID: "p-1", Workload: "host", Change: wire.Change(`{"max":"1kbit"}`)}
	now := time.Now()
	data, err := wire.SealOrder(c.managerKey(), "L.a", o.ID, now, wire.Term{Until: now.Add(time.Minute), Seq: uint64(now.Add(time.Minute).UnixNano())}, &o)
	if err == nil {
		err = c.manager.Bus().Publish(t.Context(), "L.a", o.ID, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return a.refusedCalls() > 0 }) {
		t.Error("not counted")
	}
	if has := a.agent.has(t, "host"); has != "{}" {
		t.Errorf("the host has %s by an order", has)
	}
}

// TestAcceptFrom: an operator says from which nodes containers are taken, and the node
// that is refused says what to do.
func TestAcceptFrom(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	o := c.options("b")
	o.AcceptFrom = []string{"x"}
	b := c.run(o, newAgent(c.world, "b", 100e6))
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "refused" || !strings.Contains(mv.Error, "takes no containers from a") || !strings.Contains(mv.Error, "cluster.accept_from") {
		t.Errorf("%+v", mv)
	}
	if b.refusedCalls() == 0 {
		t.Error("not counted")
	}
	c.only("web", "a")
}

// TestPodmanIsTrustedByName: what a Podman is to restore it finds in the archive that the
// source has written, so a node takes such archives only from nodes that its operator has
// named.
func TestPodmanIsTrustedByName(t *testing.T) {
	c := newCluster(t)
	c.world.kind = "podman"
	c.node("a", 100e6)
	c.node("b", 100e6)
	o := c.options("c")
	o.AcceptFrom = []string{"a"}
	c.run(o, newAgent(c.world, "c", 100e6))
	c.world.put("a", "web")
	c.up(3)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "refused" || !strings.Contains(mv.Error, "cluster.accept_from: [a]") {
		t.Errorf("%+v", mv)
	}
	c.only("web", "a")
	c.moved2("web", "c")
}

// TestHostileNode: node a is a genuine member whose client is this test. It sends every
// call and step for every container to every node, with orders and grants that are
// valid, expired, used, of other nodes and moves, altered and self-made; 10,000 in random
// order. Nothing changes on the others; each call is refused, logged and counted.
func TestHostileNode(t *testing.T) {
	const calls = 10_000
	t.Logf("seed %d", *seed)
	c := newCluster(t)
	nodes := []*testNode{c.node("a", 100e6), c.node("b", 100e6), c.node("c", 100e6)}
	a, others := nodes[0], nodes[1:]
	c.world.put("a", "web")
	c.world.put("a", "old")
	c.world.put("b", "db")
	c.world.put("c", "cache")
	c.up(3)
	c.seen(4)
	c.moved2("old", "b") // whose grant is used
	if !eventually(func() bool { return len(nodes[1].guests.unsettled()) == 0 }) {
		t.Fatal("what came with a container is not dealt with")
	}
	h := newHostile(t, c, a, others)
	before := map[string]string{}
	for _, n := range others {
		before[n.Name()] = n.hold(t)
	}
	counted := map[string]uint64{}
	for _, n := range others {
		counted[n.Name()] = n.refusedCalls()
	}
	kinds := map[string]int{}
	for i := range calls {
		x, name := h.draw()
		kinds[name]++
		counted[x.target.Name()]++
		status, answer := x.send(t, h.clients[x.target.Name()])
		if status != http.StatusConflict {
			t.Fatalf("call %d, %s: %s answers %d %s", i, name, x.target.Name(), status, answer)
		}
		if n := x.target.refusedCalls(); n != counted[x.target.Name()] {
			t.Fatalf("call %d, %s: %s has counted %d refusals, %d were made: %s", i, name, x.target.Name(), n, counted[x.target.Name()], answer)
		}
	}
	for _, n := range others {
		if after := n.hold(t); after != before[n.Name()] {
			t.Errorf("%s had\n%s\nand has\n%s", n.Name(), before[n.Name()], after)
		}
		logged := uint64(strings.Count(n.log.String(), `msg="migration refused"`))
		if n.refusedCalls() != logged {
			t.Errorf("%s has counted %d and logged %d refusals", n.Name(), n.refusedCalls(), logged)
		}
		n.Node.opts.standing.mu.Lock()
		t.Logf("%s: %v", n.Name(), n.Node.opts.standing.refusals)
		n.Node.opts.standing.mu.Unlock()
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%5d  %s", kinds[kind], kind)
	}
}

// hostile is what a hostile node has collected.
type hostile struct {
	t           *testing.T
	c           *cluster
	a           *testNode
	others      []*testNode
	random      *rand.Rand
	clients     map[string]*http.Client
	permissions []permissionCase
}

// permissionCase is an order or grant in the hands of a.
type permissionCase struct {
	name   string
	to     string // the node for which it is good
	sealed []byte
	grant  *wire.Grant
	text   []byte // the proposal of the grant
	begun  bool
	valid  bool // the manager's, for a, in time
	looks  bool // good for a look, and for nothing else any more
}

var (
	hostileVerbs = []string{"facts", "lacking", "begin", "do", "do", "do", "receive", "receive", "describe", "send", "forget", "x"}
	hostileSteps = []migrate.Step{migrate.StepPushImage, migrate.StepPreCopy, migrate.StepPullImage, migrate.StepCreate, migrate.StepFreeze, migrate.StepCommit,
		migrate.StepPush, migrate.StepPull, migrate.StepRestore, migrate.StepConfirm, migrate.StepForget, migrate.StepDiscard, migrate.StepThaw, "", "rm"}
	hostileParts = []migrate.Part{{Kind: migrate.PartImage}, {Kind: migrate.PartExport}, {Kind: migrate.PartLayer}, {Kind: migrate.PartVolume, Name: "secrets"},
		{Kind: migrate.PartCheckpoint}, {Kind: migrate.PartArchive}, {Kind: migrate.PartMemory}, {Kind: migrate.PartCommit}, {Kind: "../x"}}
	hostileContainers = []string{"web", "old", "db", "cache", "host", "migration", "../x"}
)

func newHostile(t *testing.T, c *cluster, a *testNode, others []*testNode) *hostile {
	t.Helper()
	h := &hostile{t: t, c: c, a: a, others: others, random: rand.New(rand.NewPCG(*seed, 0)), clients: map[string]*http.Client{}}
	manager, soon, past := c.managerKey(), time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for _, n := range others {
		to := n.Name()
		h.clients[to] = &http.Client{Transport: &http.Transport{TLSClientConfig: a.clientTLS(to)}}
		elsewhere := map[string]string{"b": "c", "c": "b"}[to]
		add := func(p permissionCase) {
			if p.to == "" {
				p.to = to
			}
			h.permissions = append(h.permissions, p)
		}
		add(permissionCase{name: "nothing"})
		add(permissionCase{name: "nonsense", sealed: []byte("let me")})
		for _, name := range hostileContainers {
			if name == "../x" {
				continue
			}
			move := wire.Move{ID: "m-" + to + "-" + name, Container: name, From: "a", To: to, Deadline: soon}
			late, away, foreign := move, move, move
			late.Deadline, away.To, foreign.From = past, elsewhere, elsewhere
			add(permissionCase{name: "valid order", sealed: c.seal(manager, "a", move), valid: true})
			add(permissionCase{name: "expired order", sealed: c.seal(manager, "a", late)})
			add(permissionCase{name: "order to elsewhere", to: elsewhere, sealed: c.seal(manager, "a", away), valid: true})
			add(permissionCase{name: "order of another node", sealed: c.seal(manager, elsewhere, foreign)})
			add(permissionCase{name: "self-made order", sealed: c.seal(a.key, "a", move)})
			add(permissionCase{name: "altered order", sealed: altered(c.seal(manager, "a", late), past, soon)})

			o := orderOf(move.ID, name, "a", to)
			grant, text := granted(o, soon)
			g := func(name string, grant wire.Grant, key ed25519.PrivateKey, on string) permissionCase {
				return permissionCase{name: name, sealed: c.seal(key, on, grant), grant: &grant, text: text}
			}
			valid := g("grant that was not begun", grant, manager, "a")
			valid.valid = true
			add(valid)
			lateGrant, awayGrant, foreignGrant := grant, grant, grant
			lateGrant.Deadline, awayGrant.To = past, elsewhere
			foreignGrant.From, foreignGrant.Node = elsewhere, elsewhere
			add(g("expired grant", lateGrant, manager, "a"))
			aside := g("grant to elsewhere", awayGrant, manager, "a")
			aside.to, aside.valid = elsewhere, true
			add(aside)
			add(g("grant of another node", foreignGrant, manager, elsewhere))
			add(g("grant of another node, own subject", foreignGrant, manager, "a"))
			add(g("self-made grant", grant, a.key, "a"))
			bent := g("altered grant", lateGrant, manager, "a")
			bent.sealed = altered(bent.sealed, past, soon)
			add(bent)
		}
		o := orderOf("m-"+to+"-begun", "web", "a", to)
		grant, text := granted(o, soon)
		begun := permissionCase{name: "grant that is in use", sealed: c.seal(manager, "a", grant), grant: &grant, text: text, begun: true, valid: true}
		if status, answer := (attack{target: n, verb: "begin", permission: begun.sealed, body: text}).send(t, h.clients[to]); status != http.StatusOK {
			t.Fatalf("begin: %d %s", status, answer)
		}
		for range 20 { // the one that leads furthest
			add(begun)
		}
		// In its place, for the same move, another description of the container.
		o.Container.Volumes = []migrate.Volume{{Name: "secrets"}}
		other, otherText := granted(o, soon)
		for range 5 {
			add(permissionCase{name: "second grant of a move in use", sealed: c.seal(manager, "a", other), grant: &other, text: otherText, looks: true})
		}
	}
	files, err := filepath.Glob(filepath.Join(a.opts.Dir, "moves", "m-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	var k kept
	if err != nil || json.Unmarshal(content, &k) != nil {
		t.Fatal(err)
	}
	used := wire.Grant{}
	if e, err := wire.Open(k.Grant); err != nil || e.Read(&used) != nil {
		t.Fatal(err)
	}
	for range 10 {
		h.permissions = append(h.permissions, permissionCase{name: "used grant", to: "b", sealed: k.Grant, grant: &used, text: []byte("{}"), looks: true})
	}
	return h
}

// altered moves the deadline in what the manager has sealed.
func altered(sealed []byte, from, to time.Time) []byte {
	was, _ := json.Marshal(from.Round(0))
	is, _ := json.Marshal(to.Round(0))
	return bytes.Replace(sealed, was, is, 1)
}

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// draw makes the next call. What the manager has permitted in this very form is none of
// an attack's, and is drawn again.
func (h *hostile) draw() (attack, string) {
	for {
		p, target := oneOf(h.random, h.permissions), oneOf(h.random, h.others)
		if p.sealed == nil && h.random.IntN(10) > 0 {
			continue
		}
		x := attack{target: target, verb: oneOf(h.random, hostileVerbs), permission: p.sealed}
		name := oneOf(h.random, hostileContainers)
		mine := p.valid && p.to == target.Name()
		step, part := oneOf(h.random, hostileSteps), oneOf(h.random, hostileParts)
		switch x.verb {
		case "facts":
			if mine || p.looks && p.to == target.Name() {
				continue
			}
		case "lacking":
			o := orderOf("m-"+target.Name()+"-"+name, name, "a", target.Name())
			if mine && p.grant == nil && h.random.IntN(2) > 0 {
				o.Move = "m-of-another"
			} else if mine {
				continue
			}
			x.body = callBody(remote.Call{Order: &o}, "")
		case "begin":
			x.body = p.text
			if h.random.IntN(2) > 0 {
				_, x.body = granted(orderOf("m-"+target.Name()+"-"+name, name, "a", target.Name()), time.Now())
			}
			if mine && p.grant != nil && warrant.Digest(x.body) == p.grant.Digest {
				continue
			}
		case "receive":
			x.body = callBody(remote.Call{Part: &part}, part.String()+strings.Repeat("x", 1<<10))
			x.statement = h.statement(target, p, part)
		default:
			if mine && p.begun && slices.Contains([]migrate.Step{migrate.StepPullImage, migrate.StepCreate, migrate.StepDiscard}, step) {
				continue
			}
			x.body = callBody(remote.Call{Step: step}, "")
			x.statement = h.statement(target, p, migrate.Part{Kind: migrate.PartCommit})
		}
		return x, x.verb + " with " + p.name
	}
}

// statement is one about a part that is not what is sent, or not the source's.
func (h *hostile) statement(target *testNode, p permissionCase, part migrate.Part) string {
	s := wire.Statement{Move: "m-x", Part: part.String(), SHA256: strings.Repeat("0", 64)}
	if p.grant != nil {
		s.Move = p.grant.Move
	}
	key, to := h.a.key, target.Name()
	switch h.random.IntN(5) {
	case 0:
		return ""
	case 1:
		key = h.others[0].key
	case 2:
		to = "x"
	case 3:
		s.Move = "m-another"
	}
	sealed, err := wire.Seal(key, "a", wire.Statements(to), "s", time.Now(), s)
	if err != nil {
		h.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sealed)
}

// moved2 moves a container to its end, beside others that stay.
func (c *cluster) moved2(container, to string) {
	c.t.Helper()
	mv, err := c.manager.Migrate(c.t.Context(), api.MoveRequest{Container: container, To: to}, false)
	if err != nil {
		c.t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "done" {
		c.t.Fatalf("%+v", mv)
	}
}
