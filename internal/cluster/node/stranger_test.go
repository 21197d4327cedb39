// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/manager"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/cluster/wire"
	"weir/internal/server/rest"
)

// nobody is a user without any rights.
const nobody = 65534

// asNobody calls f on a thread that has given up root for good. Sockets that f makes
// belong to nobody, whatever the rest of the process is.
func asNobody(t *testing.T, f func() error) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("to become another user needs root")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(call, nobody, nobody, nobody); errno != 0 {
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

// TestNoStrangerIsTakenForRoot: a user without rights knocks 1,000 times at all that a
// node and a manager listen at, with requests that change something, in connections that
// are open, half closed, closed and reset. None is served as if it came from root, or
// from a member.
func TestNoStrangerIsTakenForRoot(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	o := c.options("a")
	o.Registry = "127.0.0.1:0"
	a := c.run(o, newAgent(c.world, "a", 100e6))
	c.up(1)
	dir := t.TempDir() // everyone may enter it
	socket := filepath.Join(dir, "manager.sock")
	listener, err := rest.Listen(socket, "", "manager", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var onSocket atomic.Int64
	people := manager.API(c.manager, nil, slog.New(slog.DiscardHandler)).Mux
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onSocket.Add(1)
		people.ServeHTTP(w, r)
	})}
	defer srv.Close()
	go func() { _ = srv.Serve(listener) }()
	a.passes.issue(registry.Access{Move: "m-1", Source: true}, time.Now()) // a move is under way
	host := "\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	places := []struct {
		name, network, at string
		secure            bool
		requests          []string
	}{
		{"registry", "tcp", a.registry(wire.OwnRegistry), false, []string{"DELETE /v2/weir-move/manifests/sha256:" + strings.Repeat("0", 64), "POST /v2/weir-move/blobs/uploads/", "PUT /v2/weir-move/manifests/m-1", "GET /v2/"}},
		{"manager", "tcp", c.opts.Listen, true, []string{"GET /v1/info", "POST /v1/places", "POST /v1/renew", "PUT /v2/weir-move/manifests/m-1"}},
		{"node", "tcp", a.listener.Addr().String(), true, []string{"POST /v1/migrate/do", "POST /v1/migrate/receive", "POST /v1/migrate/describe"}},
		{"bus", "tcp", c.opts.BusListen, false, []string{"CONNECT {}"}},
		{"socket", "unix", socket, false, []string{"DELETE /v1/nodes/a", "POST /v1/tokens", "GET /v1/nodes"}},
	}
	served, connected := map[string]int{}, map[string]int{}
	asNobody(t, func() error {
		for i := range 1000 {
			p := places[i%len(places)]
			request := p.requests[i/len(places)%len(p.requests)] + " HTTP/1.1" + host
			line, err := knock(p.network, p.at, p.secure, i/(len(places)*len(p.requests))%4, request)
			if err == nil {
				connected[p.name]++
			}
			if strings.HasPrefix(line, "HTTP/1.1 2") {
				served[p.name]++
			}
		}
		return nil
	})
	time.Sleep(500 * time.Millisecond) // for requests of connections that were closed
	t.Logf("connected: %v; requests to the registry: %d refused, %d taken for root's", connected, a.imagesRefused.Load(), a.imagesServed.Load())
	if len(served) > 0 || a.imagesServed.Load() > 0 || onSocket.Load() > 0 || connected["socket"] > 0 {
		t.Errorf("served %v, %d by the registry, %d on the socket", served, a.imagesServed.Load(), onSocket.Load())
	}
	if a.imagesRefused.Load() < 100 {
		t.Errorf("only %d requests have reached the registry", a.imagesRefused.Load())
	}
	if list, err := c.manager.Nodes(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("nodes afterwards: %v, %v", list, err)
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
	here := a.registry(wire.OwnRegistry)
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := descriptors()
	const many = maxEngineConns + 50
	for range many {
		conn, err := net.Dial("tcp", here)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	time.Sleep(time.Second)
	// This process has both ends.
	if taken := descriptors() - before - many; taken > maxEngineConns+20 {
		t.Errorf("%d of %d connections were taken, %d are to be the most", taken, many, maxEngineConns)
	}
	login := a.passes.issue(registry.Access{Move: "m-1", Source: true}, time.Now())
	req, err := http.NewRequest("GET", "http://"+here+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(login.User, login.Password)
	began := time.Now()
	resp, err := (&http.Client{Timeout: 4 * headerTimeout}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Logf("the engine was served after %v: %s", time.Since(began).Round(time.Millisecond), resp.Status)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the engine: %s", resp.Status)
	}
}
