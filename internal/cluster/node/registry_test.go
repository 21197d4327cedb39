// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"weir/internal/api"
	"weir/internal/base/nsthread"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
	"weir/internal/host/dataplane/device/netnstest"
)

// TestOwnRegistry: a node's engine reaches the manager's registry by its agent, with the
// password of a move; no other client does.
func TestOwnRegistry(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	o := c.options("a")
	o.Registry = "127.0.0.1:0"
	a := c.run(o, newAgent(c.world, "a", 100e6))
	c.up(1)
	here := a.images.Address(wire.OwnRegistry)
	login := a.images.PushLogin(wire.Move{ID: "m-1", Registry: wire.OwnRegistry})
	other := a.images.PushLogin(wire.Move{ID: "m-2", Registry: wire.OwnRegistry})
	for name, x := range map[string]struct {
		method, path string
		login        migrate.Login
		status       int
	}{
		"with a password":                       {"GET", "/v2/", login, 200},
		"without":                               {"GET", "/v2/", migrate.Login{}, 401},
		"with a wrong one":                      {"GET", "/v2/", migrate.Login{User: login.User, Password: login.Password + "x"}, 401},
		"with none":                             {"GET", "/v2/", migrate.Login{User: login.User}, 401},
		"with that of another move":             {"GET", "/v2/", migrate.Login{User: login.User, Password: other.Password}, 401},
		"as nobody's":                           {"GET", "/v2/", migrate.Login{User: "m-9.source"}, 401},
		"another move's image":                  {"PUT", "/v2/weir-move/manifests/m-2", login, 403},
		"a list of all":                         {"GET", "/v2/_catalog", login, 403},
		"something else of the manager":         {"GET", "/v1/info", login, 403},
		"a removal":                             {"DELETE", "/v2/weir-move/manifests/m-1", login, 403},
		"a move that the manager does not know": {"PUT", "/v2/weir-move/manifests/m-1", login, 403},
	} {
		req, err := http.NewRequest(x.method, "http://"+here+x.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if x.login.User != "" {
			req.SetBasicAuth(x.login.User, x.login.Password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != x.status {
			t.Errorf("%s: %s, want %d", name, resp.Status, x.status)
		}
		if challenge := resp.Header.Get("WWW-Authenticate"); (challenge != "") != (x.status == 401) {
			t.Errorf("%s: asked for %q", name, challenge)
		}
	}
	a.images.Revoke(login)
	req, err := http.NewRequest("GET", "http://"+here+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(login.User, login.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a password that was revoked: %s", resp.Status)
	}
	stranger := membership.ManagerAt("", a.members.Identity().Client("manager.weir")).HTTP
	stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = nil
	stranger.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	resp, err = stranger.Get("https://" + c.opts.Listen + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("without a certificate: %s", resp.Status)
	}
	c.log.Wait(t, "request refused", "/v2/", "no certificate")
	if usable, err := a.images.Usable(t.Context(), wire.Move{ID: "m-3", Approach: string(migrate.ApproachCommit), Registry: wire.OwnRegistry}); err != nil || usable != here {
		t.Errorf("%q, %v", usable, err)
	}
}

// TestRegistryDown: a move that needs it is refused before anything is touched; one
// that does not goes without.
func TestRegistryDown(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = "127.0.0.1:1"
	c.start()
	c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b", Approach: "commit"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "refused" || !strings.Contains(mv.Error, "registry 127.0.0.1:1 cannot be reached") {
		t.Errorf("%+v", mv)
	}
	c.only("web", "a")
	if mv, err = c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b"}, false); err != nil {
		t.Fatal(err)
	}
	if mv = c.ended(mv.ID); mv.State != "done" {
		t.Errorf("%+v", mv)
	}
	_, err = c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "a", Approach: "magic"}, false)
	refusedAs(t, err, refusal.Invalid, "approach", "magic", "write layer")
}

// inNamespace stands for a cgroup: what a thread there makes is told apart.
type inNamespace struct{ netns.NsHandle }

func (i inNamespace) Do(f func() error) error { return nsthread.In(i.NsHandle, f) }

// nowhere is a cgroup that no thread can enter.
type nowhere struct{}

func (nowhere) Do(func() error) error { return fs.ErrPermission }

// TestDial: the sockets of a move are made by a thread in their cgroup, and where it cannot enter
// that, by another.
func TestDial(t *testing.T) {
	inside := netnstest.New(t)
	inside.Run("ip", "link", "set", "lo", "up")
	handle, err := netns.GetFromPath(inside.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	there := inNamespace{handle}
	listen := func() (l net.Listener, err error) { return net.Listen("tcp", "127.0.0.1:0") }
	here, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	var other net.Listener
	if err := there.Do(func() (err error) { other, err = listen(); return err }); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, tt := range map[string]struct {
		moves Moves
		to    net.Listener
	}{"no cgroup": {nil, here}, "a cgroup": {there, other}, "a cgroup that cannot be entered": {nowhere{}, here}} {
		n := &Node{opts: Options{Moves: tt.moves}, log: slog.New(slog.DiscardHandler)}
		_, port, _ := net.SplitHostPort(tt.to.Addr().String())
		conn, err := n.dialForMove(t.Context(), "tcp", "localhost:"+port)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		conn.Close()
	}
}

// TestMembership: a node says how it stands to its cluster.
func TestMembership(t *testing.T) {
	c := newCluster(t)
	n := c.node("a", 100e6)
	c.up(1)
	state := func() api.MembershipState { return n.Node.opts.standing.of(n.Node.opts, nil).State }
	if !eventually(func() bool { return state() == api.MemberConnected }) {
		t.Errorf("%s, not connected", state())
	}
	c.stop()
	if !eventually(func() bool { return state() == api.MemberUnreachable }) {
		t.Errorf("%s without a manager", state())
	}
}
