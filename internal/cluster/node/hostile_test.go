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
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/crowd"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/outgoing"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/warrant"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
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
func orderOf(move, container, from, to string) migrate.MoveSpec {
	return migrate.MoveSpec{Move: move, From: from, To: to, Approach: migrate.ApproachLayer, Lease: time.Minute,
		Container: migrate.Container{ID: "id-" + container, Name: container, Engine: "docker", Running: true, Image: "img", ImageID: "sha256:1"}}
}

// granted returns a proposal with the grant for it.
func granted(o migrate.MoveSpec, deadline time.Time) (wire.Grant, []byte) {
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
	statement  string    // header and trailer
	stream     io.Reader // in place of the body
}

// send makes the call; the certificate is that of node a.
func (x attack) send(t *testing.T, client *http.Client) (status int, answer string) {
	t.Helper()
	status, answer, err := x.try(client)
	if err != nil {
		t.Fatalf("%s to %s: %v", x.verb, x.target.Name(), err)
	}
	return status, answer
}

// status is send for goroutines; 0 = there was no answer.
func (x attack) status(client *http.Client) int {
	status, _, _ := x.try(client)
	return status
}

func (x attack) try(client *http.Client) (status int, answer string, err error) {
	var body io.Reader = io.MultiReader(bytes.NewReader(x.body))
	if x.stream != nil {
		body = x.stream
	}
	req, err := http.NewRequest(http.MethodPost, "https://"+x.target.listener.Addr().String()+remote.Path+x.verb, body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set(remote.OrderHeader, base64.StdEncoding.EncodeToString(x.permission))
	if x.statement != "" {
		req.Header.Set(remote.StatementHeader, x.statement)
		req.Trailer = http.Header{remote.StatementHeader: {x.statement}}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// callBody returns a call as JSON, doing or receiving.
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

// loggedRefusals counts the lines of the log about refused calls, and the calls of which they
// speak.
func (n *testNode) loggedRefusals() (lines, calls uint64) {
	for line := range strings.Lines(n.log.String()) {
		if !strings.Contains(line, `msg="migration refused"`) {
			continue
		}
		_, text, _ := strings.Cut(strings.TrimSpace(line), " omitted=")
		omitted, _ := strconv.ParseUint(text, 10, 64)
		lines, calls = lines+1, calls+1+omitted
	}
	return lines, calls
}

// mostRefusals is how many lines of the log there may be about refused calls of one node: some for
// each of the reasons.
func mostRefusals(since time.Time) uint64 {
	const reasons = 12
	return reasons * (crowd.LinesAtOnce + 1 + uint64(time.Since(since)/crowd.LinesEvery))
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
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b")}}
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
		for _, step := range []move.Step{move.Freeze, move.Commit, move.Push, move.PushImage, move.Forget, move.Thaw, move.PreCopy} {
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
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b")}}
	old := time.Now().Add(-200 * 24 * time.Hour)
	order := c.seal(c.managerKey(), "a", wire.Move{ID: "m-1", Container: "web", From: "a", To: "b", Deadline: old})
	grant, text := granted(orderOf("m-1", "web", "a", "b"), old)
	sealed := c.seal(c.managerKey(), "a", grant)
	for _, x := range []attack{
		{verb: "facts", permission: order, body: []byte("{}")}, {verb: "begin", permission: sealed, body: text},
		{verb: "do", permission: sealed, body: callBody(remote.Call{Step: move.Create}, "")},
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
	var k outgoing.Receipt
	if err == nil {
		err = json.Unmarshal(content, &k)
	}
	if err != nil || len(k.Grant) == 0 {
		t.Fatalf("no grant is kept: %v", err)
	}
	before := b.hold(t)
	for _, step := range []move.Step{move.Create, move.Restore, move.Confirm, move.Discard} {
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
	c.world.slow[move.PullImage] = gate
	c.world.mu.Unlock()
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "db", To: "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	c.log.Wait(t, "move granted", "move="+mv.ID)
	c.world.put("b", "db")
	body := fmt.Sprintf(`{"id":%q,"node":"a","seq":%d,"state":"done","policy":{"max":"1kbit"}}`, mv.ID, time.Now().Add(time.Hour).UnixNano())
	if err := a.say(a.reports, wire.Reports, "forged", rawMessage{"move-report", body}, false); err != nil {
		t.Fatal(err)
	}
	c.log.Wait(t, "move ended", "state=done")
	// And it says in the place of the target that everything holds there.
	if err := a.say(a.reports, wire.Reports, "forged-2", wire.Arrived{Move: mv.ID, Node: "a"}, false); err != nil {
		t.Fatal(err)
	}
	c.log.Wait(t, "report about a move that is not known", "node=a")
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
	o := wire.Apply{ID: "p-1", Workload: "host", Change: wire.ChangeJSON(`{"max":"1kbit"}`)}
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
	a := c.node("a", 100e6)
	o := c.options("b")
	o.AcceptFrom = []string{"x"}
	b := c.run(o, newAgent(c.world, "b", 100e6))
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	c.notAccepted(a, b, "takes no containers from a (cluster.accept_from: [x])")
	c.only("web", "a")
}

// TestPodmanIsTrustedByName: what a Podman is to restore it finds in the archive that the
// source has written, so a node takes such archives only from nodes that its operator has
// named.
func TestPodmanIsTrustedByName(t *testing.T) {
	c := newCluster(t)
	c.world.kind = "podman"
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	o := c.options("c")
	o.AcceptFrom = []string{"a"}
	c.run(o, newAgent(c.world, "c", 100e6))
	c.world.put("a", "web")
	c.up(3)
	c.seen(1)
	c.notAccepted(a, b, "cluster.accept_from: [a] in weir.yaml")
	c.only("web", "a")
	c.moved2("web", "c")
}

// notAccepted checks that b takes nothing from a: the manager does not order it, and b
// refuses an order all the same, and says what to do.
func (c *cluster) notAccepted(a, b *testNode, words string) {
	c.t.Helper()
	_, err := c.manager.Migrate(c.t.Context(), api.MoveRequest{Container: "web", To: "b"}, false)
	refusedAs(c.t, err, refusal.Conflict, "does not accept containers of a (cluster.accept_from)")
	before := b.refusedCalls()
	move := c.seal(c.managerKey(), "a", wire.Move{ID: "m-1", Container: "web", From: "a", To: "b", Deadline: time.Now().Add(time.Minute)})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b")}}
	status, answer := attack{target: b, verb: "facts", permission: move, body: []byte("{}")}.send(c.t, client)
	if status != http.StatusConflict || !strings.Contains(answer, words) || b.refusedCalls() != before+1 {
		c.t.Errorf("b answers %d %s, and counts %d", status, answer, b.refusedCalls()-before)
	}
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
