// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/images"
	"weir/internal/core/wire"
	"weir/internal/face/server"
	"weir/internal/face/server/managerapi"
)

// nobody is the id of the user of that name, who has no rights.
const nobody = 65534

// asNobody calls f on a thread that has given up root and all groups for good. Sockets
// that f makes belong to nobody, whatever the rest of the process is.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	asUser(t, nobody, f)
}

// asUser is asNobody with a group.
func asUser(t *testing.T, group uintptr, f func() error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to become another user needs root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, group, group, group}, {unix.SYS_SETRESUID, nobody, nobody, nobody}} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				done <- errno
				return
			}
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// knock makes one connection in one of the states that a kernel shows differently, and
// returns the answer's first line, "" if it did not wait for one.
func knock(network, at string, secure bool, state int, request string) (string, error) {
	conn, err := net.DialTimeout(network, at, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	var stream io.ReadWriter = conn
	if secure {
		over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := over.Handshake(); err != nil {
			return "", err
		}
		stream = over
	}
	if _, err := io.WriteString(stream, request); err != nil {
		return "", err
	}
	switch state {
	case 0: // closed at once: FIN_WAIT2, of which the kernel says that it is root's
		return "", nil
	case 1: // closed with a reset
		if tcp, ok := conn.(*net.TCPConn); ok {
			return "", tcp.SetLinger(0)
		}
		return "", nil
	case 2: // half closed
		if half, ok := conn.(interface{ CloseWrite() error }); ok && !secure {
			_ = half.CloseWrite()
		}
	}
	line, err := bufio.NewReader(stream).ReadString('\n')
	return strings.TrimSpace(line), err
}

// viewGroup is a group that every Debian has; its members may look in these tests.
const viewGroup = "daemon"

// place is something that listens, and what strangers ask of it.
type place struct {
	name, network, at string
	secure            bool
	requests          []string
}

// house is all that listens on a host that is node and manager.
type house struct {
	*cluster
	node                *testNode
	agent               *apitest.Fake
	agentLog            *audit.Log
	network             []place
	full, view          []place // unix sockets: for those who may change things, and for those who may look
	onFull, helperCalls *atomic.Int64
}

// listening starts an agent's server, a manager's and a migration helper on sockets like
// the ones of their units.
func listening(t *testing.T) *house {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	o := c.options("a")
	o.Registry = "127.0.0.1:0"
	h := &house{cluster: c, agent: apitest.New(apitest.Demo()...), onFull: &atomic.Int64{}, helperCalls: &atomic.Int64{}}
	h.node = c.run(o, newAgent(c.world, "a", 100e6))
	c.up(1)
	dir, err := os.MkdirTemp("", "weir-house")
	if err == nil {
		err = os.Chmod(dir, 0o755) // everyone may enter it; what t.TempDir makes is below a folder of 0700
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	quiet := slog.New(slog.DiscardHandler)
	agent, manages, helper := filepath.Join(dir, "weir.sock"), filepath.Join(dir, "manager.sock"), filepath.Join(dir, "helper.sock")

	h.agentLog = audit.New(filepath.Join(t.TempDir(), "audit.log"), quiet)
	s := server.New(h.agent, server.Options{Socket: agent, ViewGroup: viewGroup, Audit: h.agentLog, Log: quiet})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Serve(ctx) }()

	people := managerapi.New(c.manager, nil, quiet)
	socket, err := rest.Listen(manages, "", "manager", quiet)
	if err != nil {
		t.Fatal(err)
	}
	view, err := rest.ListenView(manages, viewGroup, "manager", quiet)
	if err != nil || view == nil {
		t.Fatal(view, err)
	}
	for ln, handler := range map[net.Listener]http.Handler{
		socket: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.onFull.Add(1); people.Mux.ServeHTTP(w, r) }),
		view:   people.Reading(manages, ""),
	} {
		srv := rest.Server(handler, quiet)
		t.Cleanup(func() { srv.Close() })
		go func() { _ = srv.Serve(ln) }()
	}

	ln, err := net.Listen("unix", helper)
	if err == nil {
		err = os.Chmod(helper, 0o666) // as if it had been left open to all
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		ended <- remote.NewHelper(engine{c.world, "a"}, countedGuard{h.helperCalls}, 0, quiet).Serve(ctx, ln)
	}()
	t.Cleanup(func() { cancel(); <-ended; <-ended })

	onAgent := []string{"PATCH /v1/workloads/web/policy", "PATCH /v1/groups/g", "DELETE /v1/workloads/web", "POST /v1/workloads", "PATCH /v1/workloads/web/policy?dry_run=true"}
	onManager := []string{"DELETE /v1/nodes/a", "POST /v1/tokens", "POST /v1/moves", "POST /v1/authority/rotate"}
	onHelper := []string{"POST /v1/migrate/facts", "POST /v1/migrate/do", "POST /v1/migrate/admit", "POST /v1/migrate/copy"}
	h.network = []place{
		{"registry", "tcp", h.node.images.Address(wire.OwnRegistry), false, []string{"DELETE /v2/weir-move/manifests/sha256:" + strings.Repeat("0", 64), "POST /v2/weir-move/blobs/uploads/", "PUT /v2/weir-move/manifests/m-1", "GET /v2/"}},
		{"manager", "tcp", c.opts.Listen, true, []string{"GET /v1/info", "POST /v1/places", "POST /v1/renew", "PUT /v2/weir-move/manifests/m-1"}},
		{"node", "tcp", h.node.listener.Addr().String(), true, []string{"POST /v1/migrate/do", "POST /v1/migrate/receive", "POST /v1/migrate/describe"}},
		{"bus", "tcp", c.opts.BusListen, false, []string{"CONNECT {}"}},
	}
	h.full = []place{{"agent's socket", "unix", agent, false, append(onAgent, "GET /v1/workloads")},
		{"manager's socket", "unix", manages, false, append(onManager, "GET /v1/nodes")}, {"helper", "unix", helper, false, onHelper}}
	h.view = []place{{"agent's view socket", "unix", api.ViewSocket(agent), false, onAgent}, {"manager's view socket", "unix", api.ViewSocket(manages), false, onManager}}
	return h
}

// countedGuard counts the calls that a helper looks at, and permits them all: who gets so
// far was taken for root.
type countedGuard struct{ calls *atomic.Int64 }

func (g countedGuard) Describe(*remote.Warrant, string) error          { g.calls.Add(1); return nil }
func (g countedGuard) Lacking(*remote.Warrant, migrate.MoveSpec) error { g.calls.Add(1); return nil }
func (g countedGuard) Admit(*remote.Warrant) error                     { g.calls.Add(1); return nil }
func (g countedGuard) Copy(string) error                               { g.calls.Add(1); return nil }
func (g countedGuard) Take(remote.Verb, move.Step, string, migrate.MoveSpec) (remote.Passage, error) {
	g.calls.Add(1)
	return remote.Passage{Before: &migrate.StepOutcome{}}, nil
}

// knocks are what came of many requests, by place.
type knocks struct{ connected, served, refused map[string]int }

// knock makes many requests, each place's in turn, in connections that are open, half
// closed, closed and reset.
func (k *knocks) knock(many int, places []place) error {
	k.connected, k.served, k.refused = map[string]int{}, map[string]int{}, map[string]int{}
	host := "\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	for i := range many {
		p := places[i%len(places)]
		request := p.requests[i/len(places)%len(p.requests)] + " HTTP/1.1" + host
		line, err := knock(p.network, p.at, p.secure, i/(len(places)*len(p.requests))%4, request)
		if err == nil {
			k.connected[p.name]++
		}
		switch {
		case strings.HasPrefix(line, "HTTP/1.1 2"):
			k.served[p.name]++
		case strings.HasPrefix(line, "HTTP/1.1 403"):
			k.refused[p.name]++
		}
	}
	return nil
}

// TestNoStrangerIsTakenForRoot: a user without rights knocks 2,000 times at all that a
// node, its agent, its migration helper and a manager listen at, with requests that change
// something, in connections that are open, half closed, closed and reset. None is served
// as if it came from root, from a group that may use a socket, or from a member.
func TestNoStrangerIsTakenForRoot(t *testing.T) {
	h := listening(t)
	a := h.node
	a.images.PushLogin(wire.Move{ID: "m-1", Registry: wire.OwnRegistry}) // a move is under way
	var k knocks
	asNobody(t, func() error { return k.knock(2000, slices.Concat(h.network, h.full, h.view)) })
	time.Sleep(500 * time.Millisecond) // for requests of connections that were closed
	served, refused := a.images.Counts()
	t.Logf("connected: %v; requests to the registry: %d refused, %d taken for root's", k.connected, refused, served)
	if len(k.served) > 0 || served > 0 || h.onFull.Load() > 0 || h.helperCalls.Load() > 0 {
		t.Errorf("served %v, %d by the registry, %d on the manager's socket, %d by the helper", k.served, served, h.onFull.Load(), h.helperCalls.Load())
	}
	for _, p := range slices.Concat(h.full[:2], h.view) {
		if k.connected[p.name] > 0 {
			t.Errorf("%s: %d connections", p.name, k.connected[p.name])
		}
	}
	if k.connected["helper"] == 0 {
		t.Error("nobody has reached the helper, which was left open to all") // it looks at who connects
	}
	if refused < 100 {
		t.Errorf("only %d requests have reached the registry", refused)
	}
	h.unchanged()
}

// TestViewersAreTakenForNobodyElse: a member of the group that may look knocks 1,000 times
// at the sockets of agent, manager and helper with requests that change something. All
// that are answered are refused, and in the agent's audit log they are his.
func TestViewersAreTakenForNobodyElse(t *testing.T) {
	h := listening(t)
	group, err := user.LookupGroup(viewGroup)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	var k knocks
	asUser(t, uintptr(gid), func() error { return k.knock(1000, slices.Concat(h.full, h.view)) })
	time.Sleep(500 * time.Millisecond)
	t.Logf("connected: %v, refused: %v", k.connected, k.refused)
	if len(k.served) > 0 || h.onFull.Load() > 0 || h.helperCalls.Load() > 0 {
		t.Errorf("served %v, %d on the manager's socket, %d by the helper", k.served, h.onFull.Load(), h.helperCalls.Load())
	}
	for _, p := range h.full[:2] {
		if k.connected[p.name] > 0 {
			t.Errorf("%s: %d connections", p.name, k.connected[p.name])
		}
	}
	for _, p := range h.view {
		if k.refused[p.name] < 90 { // half of the connections wait for an answer
			t.Errorf("%s: %d of %d requests were answered by a refusal", p.name, k.refused[p.name], k.connected[p.name])
		}
	}
	list, err := h.agentLog.Read(t.Context(), audit.Query{})
	if err != nil || len(list) == 0 {
		t.Errorf("%d lines in the audit log, %v", len(list), err)
	}
	for _, e := range list {
		if e.Result != audit.Refused || e.Who.UID == nil || *e.Who.UID != nobody {
			t.Errorf("audit log: %+v", e)
		}
	}
	h.unchanged()
}

// unchanged checks that nothing of what agent and manager have has changed.
func (h *house) unchanged() {
	h.t.Helper()
	if list, err := h.manager.Nodes(h.t.Context()); err != nil || len(list) != 1 {
		h.t.Errorf("nodes afterwards: %v, %v", list, err)
	}
	if list, err := h.manager.Tokens(h.t.Context()); err != nil || len(list) != 1 {
		h.t.Errorf("tokens afterwards: %v, %v", list, err)
	}
	now, err := h.agent.Workloads(h.t.Context())
	want, _ := apitest.New(apitest.Demo()...).Workloads(h.t.Context())
	policies := func(list []api.Workload) (lines []string) {
		for _, w := range list {
			lines = append(lines, fmt.Sprint(w.Name, w.Policy))
		}
		return lines
	}
	if err != nil || !slices.Equal(policies(now), policies(want)) {
		h.t.Errorf("workloads afterwards: %v, %v; before: %v", policies(now), err, policies(want))
	}
}

// TestStrangersCannotUseUpTheAgent: a user without rights opens as many connections as he
// can to the registry's address and says nothing. The agent takes a bounded number, and the
// engine is served again when they have said nothing for a while.
func TestStrangersCannotUseUpTheAgent(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	o := c.options("a")
	o.Registry = "127.0.0.1:0"
	a := c.run(o, newAgent(c.world, "a", 100e6))
	c.up(1)
	here := a.images.Address(wire.OwnRegistry)
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := descriptors()
	const many = images.MaxConns + 50
	for range many {
		conn, err := net.Dial("tcp", here)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	time.Sleep(time.Second)
	// This process has both ends.
	if taken := descriptors() - before - many; taken > images.MaxConns+20 {
		t.Errorf("%d of %d connections were taken, %d are to be the most", taken, many, images.MaxConns)
	}
	login := a.images.PushLogin(wire.Move{ID: "m-1", Registry: wire.OwnRegistry})
	req, err := http.NewRequest("GET", "http://"+here+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(login.User, login.Password)
	began := time.Now()
	resp, err := (&http.Client{Timeout: 40 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Logf("the engine was served after %v: %s", time.Since(began).Round(time.Millisecond), resp.Status)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the engine: %s", resp.Status)
	}
}
