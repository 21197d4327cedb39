// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/cluster/wire"
)

func TestOwnerOfAConnection(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1D32 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1D32 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:D2F0 0100007F:1D32 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0000000000000000 20 4 30 10 -1
`
	client, server := netip.MustParseAddrPort("127.0.0.1:54000"), netip.MustParseAddrPort("127.0.0.1:7474")
	if uid, err := ownerIn(strings.NewReader(table), client, server); uid != 1000 || err != nil {
		t.Errorf("the client's is %d, %v", uid, err)
	}
	if _, err := ownerIn(strings.NewReader(table), netip.MustParseAddrPort("127.0.0.1:1"), server); err == nil {
		t.Error("a connection that is not there has an owner")
	}
	if got, want := procAddress(netip.MustParseAddrPort("[::1]:80")), "00000000000000000000000001000000:0050"; got != want {
		t.Errorf("::1 is %s, want %s", got, want)
	}
	for _, listen := range []string{"127.0.0.1", "::1"} {
		t.Run(listen, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
			if err != nil {
				t.Skipf("no loopback of that kind: %v", err)
			}
			defer l.Close()
			if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if o := withOwner(t.Context(), c).Value(ownerKey{}).(owner); o.uid != os.Getuid() || o.err != nil {
				t.Errorf("this process's connection: %+v", o)
			}
		})
	}
}

// TestOwnRegistry: a node's engine reaches the manager's registry by its agent; nobody
// else does.
func TestOwnRegistry(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the registry is for root's processes")
	}
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	o := c.options("a")
	o.Registry = "127.0.0.1:0"
	a := c.run(o, newAgent(c.world, "a", 100e6))
	c.up(1)
	here := a.registry(wire.OwnRegistry)
	resp, err := http.Get("http://" + here + "/v2/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("by the agent: %s", resp.Status)
	}
	stranger := httpClient(a.identity().Client("manager.weir"))
	stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = nil
	stranger.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	if resp, err = stranger.Get("https://" + c.opts.Listen + "/v2/"); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("without a certificate: %s", resp.Status)
	}
	c.log.wait(t, "request refused", "/v2/", "no certificate")
	if err := a.checkRegistry(t.Context(), wire.OwnRegistry); err != nil {
		t.Error(err)
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
	refusedAs(t, err, 422, "approach", "magic", "write layer")
}

// TestMark: what a move sends carries the mark of its class.
func TestMark(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const mark = 0x00050000
	n := &Node{opts: Options{Mark: func(context.Context) uint32 { return mark }}}
	conn, err := n.dialer(t.Context()).Dial("tcp", l.Addr().String())
	if errors.Is(err, unix.EPERM) {
		t.Skip("marking needs CAP_NET_ADMIN")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if failed := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	if got != mark {
		t.Errorf("mark %#x, want %#x", got, mark)
	}
}

// TestMembership: a node says how it stands to its cluster.
func TestMembership(t *testing.T) {
	c := newCluster(t)
	n := c.node("a", 100e6)
	c.up(1)
	state := func() string { return n.Node.opts.standing.of(n.Node.opts, nil).State }
	if !eventually(func() bool { return state() == stateConnected }) {
		t.Errorf("%s, not connected", state())
	}
	c.stop()
	if !eventually(func() bool { return state() == stateUnreachable }) {
		t.Errorf("%s without a manager", state())
	}
}
