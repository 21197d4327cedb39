// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// TestHostNetwork: a container in the network of its host moves, and no rule among the host's
// drops anything meanwhile or afterwards. With a connection, also one that comes after the
// pre-flight, it is refused by name before anything is touched.
func TestHostNetwork(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	b.start("a", "web", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "host" }, "tcp=1")
	dial := func() (conn net.Conn) {
		err := b.inside(b.Node("a"), func() (err error) {
			conn, err = net.Dial("tcp", "127.0.0.1:7000")
			return err
		})
		b.must(err)
		_, err = conn.Read(make([]byte, 1))
		b.must(err)
		return conn
	}
	conn := dial()
	if list := b.check("web", "a", "b", migrate.Request{CloseConnections: true}).Refusals(); len(list) != 1 || list[0].Code != "host-network" || !strings.Contains(list[0].Msg, "127.0.0.1:7000") {
		t.Errorf("with a connection: %v", list)
	}
	b.must(conn.Close())
	for c := b.waitCount("a", "web", 0); len(b.check("web", "a", "b", migrate.Request{}).Refusals()) > 0; {
		c = b.waitCount("a", "web", c.Last+2) // the server learns that it has ended by writing
	}
	p := b.check("web", "a", "b", migrate.Request{})
	b.must(p.Err())
	conn = dial()
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	r, err := migrate.Run(context.Background(), b.nodes["a"], b.nodes["b"], j, nil)
	b.must(errors.Join(err, j.Close(), conn.Close()))
	if r.State != wire.MoveRolledBack || !strings.Contains(r.Err, "network of its host") {
		t.Errorf("with a connection after the pre-flight: %s: %s%s", r.State, r.Err, steps(r))
	}
	for c := b.waitCount("a", "web", 0); len(b.check("web", "a", "b", migrate.Request{}).Refusals()) > 0; {
		c = b.waitCount("a", "web", c.Last+2)
	}
	if r := b.migrate("web", "a", "b", migrate.Request{}); r.State != wire.MoveDone {
		t.Fatalf("%s: %s%s", r.State, r.Err, steps(r))
	}
	if c := b.waitCount("b", "web", 0); c.Starts != 1 {
		t.Errorf("it has started %d times", c.Starts)
	}
	for _, n := range b.Nodes() {
		if got := rulesIn(n.Netns); len(got) > 0 {
			t.Errorf("left in the network of %s: %q", n.Name, got)
		}
	}
}

// rulesIn lists CRIU's rules in a network namespace.
func rulesIn(netns string) (list []string) {
	for _, tool := range []string{"iptables-save", "ip6tables-save", "nft list ruleset"} {
		args := append([]string{"--net=" + netns, "--"}, strings.Fields(tool)...)
		if out, err := exec.Command("nsenter", args...).Output(); err == nil && strings.Contains(string(out), "CRIU") {
			list = append(list, "rules of CRIU's ("+tool+")")
		}
	}
	return list
}
