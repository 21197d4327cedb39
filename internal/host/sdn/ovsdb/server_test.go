// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/base/tlsfile"
)

// server is an ovsdb-server of its own with Open vSwitch's schema, and no switch.
type server struct {
	t       *testing.T
	dir     string
	address string
}

func newServer(t *testing.T) *server {
	t.Helper()
	for _, tool := range []string{"ovsdb-server", "ovs-vsctl", "ovsdb-tool"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP: %s is not installed; the virtual machine has it", tool)
		}
	}
	s := &server{t: t, dir: t.TempDir()}
	s.address = "unix:" + s.dir + "/db.sock"
	s.run("ovsdb-tool", "create", s.dir+"/conf.db", "/usr/share/openvswitch/vswitch.ovsschema")
	s.run("ovsdb-server", s.dir+"/conf.db", "--remote=punix:"+s.dir+"/db.sock", "--unixctl="+s.dir+"/ctl", "--pidfile="+s.dir+"/pid", "--detach", "--log-file="+s.dir+"/log")
	t.Cleanup(s.stop)
	s.vsctl("init")
	return s
}

func (s *server) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		s.t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

func (s *server) vsctl(line string) string {
	s.t.Helper()
	return s.run("ovs-vsctl", append([]string{"--db=" + s.address, "--no-wait"}, strings.Fields(line)...)...)
}

// stop ends it and waits for that.
func (s *server) stop() {
	file := filepath.Join(s.dir, "pid")
	text, err := os.ReadFile(file)
	if err != nil {
		return // has ended
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for err == nil { // it removes the file last
		time.Sleep(10 * time.Millisecond)
		_, err = os.Stat(file)
	}
}

// port returns the port up0 of s1 as the copy has it.
func port(t *testing.T, c *Conn) (Content, Port) {
	t.Helper()
	snapshot, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := snapshot.Bridge("s1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := bridge.Port("up0")
	if err != nil {
		t.Fatal(err)
	}
	return snapshot, p
}

// TestServer: with Open vSwitch's own database, a port gets rows of Weir's in the place of
// another program's, the copy follows before the answer is there, a change on an old snapshot
// changes nothing, and what is Weir's goes without a trace.
func TestServer(t *testing.T) {
	s := newServer(t)
	s.vsctl("add-br s1 -- add-port s1 up0 -- set interface up0 type=internal -- " +
		"set port up0 qos=@q -- --id=@q create qos type=linux-htb other_config:max-rate=1000 queues:7=@u -- --id=@u create queue dscp=8")
	c, err := Dial(t.Context(), s.address, tlsfile.Files{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, before := port(t, c)
	if q := before.QoS; q == nil || q.Type != "linux-htb" || q.OtherConfig["max-rate"] != "1000" || *q.Queues[7].DSCP != 8 || before.Interfaces[0] != (Interface{"up0", "internal"}) {
		t.Fatalf("the port is %+v with %+v", before, before.QoS)
	}
	mark := map[string]string{Owner: "s1/up0"}
	want := &QoS{Type: Noop, OtherConfig: map[string]string{"a": "1"}, ExternalIDs: mark,
		Queues: map[int]Queue{0: {ExternalIDs: mark, DSCP: new(46)}, 3: {OtherConfig: map[string]string{"min-rate": "5"}, ExternalIDs: mark}}}
	if err := c.Replace(t.Context(), []PortQoS{{Port: before, Want: want}}, nil); err != nil {
		t.Fatal(err)
	}
	snapshot, now := port(t, c)
	if !now.QoS.Same(want) || snapshot.QoS[before.QoS.UUID] == nil {
		t.Errorf("the port has %+v, and of the former rows there are %+v", now.QoS, snapshot.QoS)
	}
	if err := c.Replace(t.Context(), []PortQoS{{Port: before, Want: want}}, nil); err == nil || !strings.Contains(err.Error(), "another program has changed a port's QoS meanwhile") {
		t.Errorf("on an old snapshot: %v", err)
	}
	if err := c.Replace(t.Context(), []PortQoS{{Port: now, Want: &QoS{Type: Noop, Queues: map[int]Queue{1: {DSCP: new(64)}}}}}, nil); err == nil || !strings.Contains(err.Error(), "constraint violation") {
		t.Errorf("a DSCP of 64: %v", err)
	}
	if _, still := port(t, c); !still.QoS.Same(want) {
		t.Errorf("a transaction that failed left %+v", still.QoS)
	}
	if err := c.Replace(t.Context(), []PortQoS{{Port: now, Back: before.QoS.UUID}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, back := port(t, c); !back.QoS.Same(before.QoS) {
		t.Errorf("the port has %+v back", back.QoS)
	}
	if list := s.vsctl("--bare --columns=_uuid list queue"); strings.Count(list, "-") != 4 {
		t.Errorf("queues are left: %s", list)
	}
	s.vsctl(fmt.Sprintf("--id=@q create qos type=linux-noop external_ids:%s=s1/gone", Owner))
	for c.Alive(t.Context()) == nil {
		if snapshot, _ := port(t, c); len(snapshot.Orphans) == 1 {
			if err := c.Replace(t.Context(), nil, snapshot.Orphans); err != nil {
				t.Error(err)
			}
			break
		}
	}
	if snapshot, _ := port(t, c); len(snapshot.QoS) != 1 {
		t.Errorf("an orphan is left: %+v", snapshot.QoS)
	}
	select {
	case <-c.Changed():
	default:
		t.Error("no change was told")
	}
	s.stop()
	<-c.Lost()
	if _, err := c.Snapshot(); err == nil || err.Error() != "ovsdb "+s.address+": the connection is lost; is ovsdb-server running?" {
		t.Errorf("without a server: %v", err)
	}
	if _, err := Dial(t.Context(), s.address, tlsfile.Files{}); err == nil || err.Error() != "ovsdb "+s.address+": no such file or directory" {
		t.Errorf("dialled again: %v", err)
	}
}

// TestAnotherSchema: a database without the tables of a switch is refused with its own words.
func TestAnotherSchema(t *testing.T) {
	s := newServer(t)
	text, err := os.ReadFile("/usr/share/openvswitch/vswitch.ovsschema")
	if err != nil {
		t.Fatal(err)
	}
	schema := filepath.Join(s.dir, "other")
	if err := os.WriteFile(schema, []byte(strings.Replace(string(text), `"other_config"`, `"other"`, -1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.run("ovsdb-tool", "create", s.dir+"/other.db", schema)
	s.run("ovsdb-server", s.dir+"/other.db", "--remote=punix:"+s.dir+"/db.sock", "--unixctl="+s.dir+"/ctl", "--pidfile="+s.dir+"/pid", "--detach", "--log-file="+s.dir+"/log")
	if _, err := Dial(t.Context(), s.address, tlsfile.Files{}); err == nil || !strings.Contains(err.Error(), "other_config") {
		t.Errorf("got %v", err)
	}
}
