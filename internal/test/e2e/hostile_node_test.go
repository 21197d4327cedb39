// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/cgroup/cgrouptest"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest/strangertest"
	"weir/internal/test/logtest"
)

// clusterNode is an agent under its unit's MemoryMax that is node b of a cluster, on the loopback,
// with a manager in a process of its own. This test is node a.
type clusterNode struct {
	t        *testing.T
	dir      string
	agent    *exec.Cmd
	log      logtest.Buffer
	limit    *cgrouptest.Memory
	node     string       // host:port for other nodes
	registry string       // host:port for its engine
	key      pki.Identity // the manager's own
	client   *http.Client // of node a, to b
	class    uint16       // of the workload beside
}

func newClusterNode(t *testing.T) *clusterNode {
	t.Helper()
	mountBPFFS(t)
	m := &clusterNode{t: t, dir: t.TempDir(), node: freePort(t), registry: freePort(t), limit: cgrouptest.Limit(t, memoryMax)}
	newSpace(t, "right")
	for _, command := range []string{"ip link set lo up", "ip link add up9 type veth peer name up9-far", "ip link set up9 up", "ip link set up9-far up",
		"ip link add right9 type veth peer name eth0 netns right", "ip link set right9 up"} {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	t.Cleanup(func() { // by themselves they go a while after their namespace, when another test makes them
		_ = exec.Command("ip", "link", "delete", "up9").Run()
		_ = exec.Command("ip", "link", "delete", "right9").Run()
	})
	state, at := filepath.Join(m.dir, "manager"), freePort(t)
	token, err := manager.InitFor(state, api.AnyNumber, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m.run(exec.Command(weir, "manager", "serve", "--state-dir", state, "--listen", at, "--bus-listen", freePort(t)))
	id, err := m.enroll(membership.Options{Dir: filepath.Join(m.dir, "a"), Name: "a", Manager: at, Token: token.String(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if m.key, err = pki.LoadIdentity(filepath.Join(state, "own")); err != nil {
		t.Fatal(err)
	}
	m.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: pki.NewCredentials(id, time.Now).Client(pki.NodeName("b"))}}
	m.agent = m.limit.Command(weir, "agent", "--config", m.configure(at, token.String()))
	m.run(m.agent)
	await(t, time.Minute, "the agent answers another node", m.served)
	m.class = m.right()
	return m
}

// run starts a program that ends with the test.
func (m *clusterNode) run(cmd *exec.Cmd) {
	m.t.Helper()
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if m.t.Failed() {
			m.t.Logf("%.5000s", m.log.String())
		}
	})
}

// enroll joins once the manager is there.
func (m *clusterNode) enroll(o membership.Options) (id pki.Identity, err error) {
	for range 200 {
		if id, err = membership.Enroll(m.t.Context(), o); err == nil {
			return id, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return id, err
}

// configure writes the agent's configuration and its engine.
func (m *clusterNode) configure(manager, token string) (path string) {
	m.t.Helper()
	engine := filepath.Join(m.dir, "engine.sock")
	newEngine(m.t, engine)
	path = filepath.Join(m.dir, "weir.yaml")
	text := fmt.Sprintf("socket: %[1]s/weir.sock\nstate_dir: %[1]s/state\ngroup: %[2]s\ndocker: {socket: %[3]s}\nlinks: [{device: up9, egress: 100mbit}]\n"+
		"attach: [{name: right, netns: right}]\nworkloads: {right: {weight: 7}}\n"+
		"cluster: {manager: %[4]q, token_file: %[1]s/token, name: b, listen: %[5]q, registry_listen: %[6]q}\n", m.dir, groupName, engine, manager, m.node, m.registry)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(filepath.Join(m.dir, "token"), []byte(token), 0o600)); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// seal seals what the manager orders node a.
func (m *clusterNode) seal(message wire.Message) string {
	data, err := wire.Seal(m.key.Key, wire.Manager, wire.Orders.Of("a"), "x", time.Now(), message)
	if err != nil {
		m.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(data)
}

// call is one of node a's, with an order or a grant.
func (m *clusterNode) call(verb, sealed, body string) (status int, answer string, err error) {
	q, err := http.NewRequest(http.MethodPost, "https://"+m.node+remote.Path+verb, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	q.Header.Set(remote.OrderHeader, sealed)
	resp, err := m.client.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// answered makes a call with a genuine order that the port itself answers, without the engine: the
// order is read and verified, and the container of the question is another one.
func (m *clusterNode) answered() error {
	order := m.seal(wire.Move{ID: "m-served", Container: "web", From: "a", To: "b", Deadline: time.Now().Add(time.Hour)})
	status, answer, err := m.call("lacking", order, "{}")
	if err == nil && (status != http.StatusConflict || !strings.Contains(answer, "about another move")) {
		err = fmt.Errorf("status %d: %.300s", status, answer)
	}
	return err
}

// served makes the call with which a genuine move begins.
func (m *clusterNode) served() error {
	order := m.seal(wire.Move{ID: "m-served", Container: "web", From: "a", To: "b", Deadline: time.Now().Add(time.Hour)})
	status, answer, err := m.call("facts", order, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", status, answer)
	}
	return err
}

// unharmed checks that the agent has not been ended at its limit, and that the workload beside has
// its class.
func (m *clusterNode) unharmed() {
	m.t.Helper()
	m.t.Logf("memory %d MB at most of %d; %d lines of the log", m.limit.Most()>>20, memoryMax>>20, strings.Count(m.log.String(), "\n"))
	if killed := m.limit.Killed(m.t); killed != 0 {
		m.t.Errorf("the kernel has ended %d processes of the agent", killed)
	}
	if err := m.served(); err != nil {
		m.t.Errorf("a member afterwards: %v", err)
	}
	if now := m.right(); m.class != now {
		m.t.Errorf("the workload beside has class %d after %d", now, m.class)
	}
}

// right returns the class of the workload beside, which has to be in force.
func (m *clusterNode) right() (class uint16) {
	m.t.Helper()
	await(m.t, time.Minute, "the workload beside has its class", func() error {
		w, err := api.NewClient(filepath.Join(m.dir, "weir.sock")).Workload(m.t.Context(), "right")
		if err == nil && (w.State != "active" || w.Class == 0 || w.Policy.Weight != 7) {
			err = fmt.Errorf("state %s, class %d, weight %d", w.State, w.Class, w.Policy.Weight)
		}
		class = w.Class
		return err
	})
	return class
}

// freePort returns an address of the loopback that no program listens at.
func freePort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestStrangersAtANode: a stranger sends hostile bodies to every route of an agent's port for
// other nodes, and of the port at which its engine finds images: 10,000 to each with -long, 2,000
// without. The agent's memory stays bounded, and another node is served meanwhile.
func TestStrangersAtANode(t *testing.T) {
	m := newClusterNode(t)
	body := func(r *rand.Rand, long string) string {
		return []string{`{"order":{"container":{"config":` + long + `}}}`, `{"part":` + long + `}`, `{"schemaVersion":2,"layers":` + long + `}`}[r.IntN(3)]
	}
	port := strangertest.Port{Address: m.node, Pid: m.agent.Process.Pid, Bodies: drawn(10_000, 2000), Member: m.answered, Body: body}
	for _, verb := range []string{"facts", "lacking", "begin", "do", "receive", "describe", "send", "forget", "x"} {
		port.Paths = append(port.Paths, remote.Path+verb)
	}
	strangertest.Attack(t, port)
	port.Address, port.Clear = m.registry, true
	port.Paths = []string{"/v2/", "/v2/weir-move/manifests/m-1", "/v2/weir-move/blobs/uploads/", "/v2/weir-base/blobs/sha256:" + strings.Repeat("0", 64), "/v2/_catalog"}
	strangertest.Attack(t, port)
	m.unharmed()
}
