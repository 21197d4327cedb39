// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/outgoing"
	"weir/internal/cluster/warrant"
	"weir/internal/core/wire"
)

// TestHostileNode: node a is a genuine member whose client is this test. It sends every
// call and step for every container to every node, with orders and grants that are
// valid, expired, used, of other nodes and moves, altered and self-made; 10,000 in random
// order. Nothing changes on the others; each call is refused and counted, and the log has some
// lines for all.
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
	if !eventually(func() bool { return len(nodes[1].unsettled()) == 0 }) {
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
	kinds, begun := map[string]int{}, time.Now()
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
		lines, logged := n.loggedRefusals()
		if all := n.refusedCalls(); lines == 0 || lines > mostRefusals(begun) || logged > all {
			t.Errorf("%s has counted %d refusals and logged %d, in %d lines", n.Name(), all, logged, lines)
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
	hostileSteps = []move.Step{move.PushImage, move.PreCopy, move.PullImage, move.Create, move.Freeze, move.Commit,
		move.Push, move.Pull, move.Restore, move.Confirm, move.Forget, move.Discard, move.Thaw, "", "rm"}
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
		h.clients[to] = &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS(to)}}
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
			add(permissionCase{name: "self-made order", sealed: c.seal(a.members.Identity().Key, "a", move)})
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
			add(g("self-made grant", grant, a.members.Identity().Key, "a"))
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
	var k outgoing.Receipt
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
			if mine && p.begun && slices.Contains([]move.Step{move.PullImage, move.Create, move.Discard}, step) {
				continue
			}
			x.body = callBody(remote.Call{Step: step}, "")
			x.statement = h.statement(target, p, migrate.Part{Kind: migrate.PartCommit})
		}
		return x, x.verb + " with " + p.name
	}
}

// statement returns a statement about a part: none, or one of another node, for
// another target, of another move, or with a wrong hash.
func (h *hostile) statement(target *testNode, p permissionCase, part migrate.Part) string {
	s := wire.Statement{Move: "m-x", Part: part.String(), SHA256: strings.Repeat("0", 64)}
	if p.grant != nil {
		s.Move = p.grant.Move
	}
	key, to := h.a.members.Identity().Key, target.Name()
	switch h.random.IntN(5) {
	case 0:
		return ""
	case 1:
		key = h.others[0].members.Identity().Key
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
