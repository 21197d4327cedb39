// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
	"weir/internal/config"
)

// newTLSBed returns an Open vSwitch whose database and bridge s1 listen by TLS alone, on
// two free ports of the loopback. Its datapath is Open vSwitch's dummy: the conversation
// needs no kernel part and no root.
func newTLSBed(t *testing.T, server tlsfile.Files) (b *bed, database, bridge string) {
	t.Helper()
	for _, tool := range []string{"ovsdb-server", "ovs-vsctl", "ovsdb-tool"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP: %s is not installed; the virtual machine has it", tool)
		}
	}
	b = &bed{t: t, dir: t.TempDir(), pid: map[string]int{}}
	database, bridge = freeAddress(t), freeAddress(t)
	t.Cleanup(func() {
		for name := range b.pid {
			b.kill(name)
		}
	})
	passive := func(address string) string {
		host, port, _ := net.SplitHostPort(address)
		return "pssl:" + port + ":" + host
	}
	b.sh(`ovsdb-tool create $D/conf.db /usr/share/openvswitch/vswitch.ovsschema`)
	b.sh(fmt.Sprintf(`ovsdb-server $D/conf.db --remote=punix:$D/db.sock --remote=%s --private-key=%s --certificate=%s --ca-cert=%s --unixctl=$D/db.ctl --pidfile=$D/db.pid --detach --log-file=$D/db.log 2>/dev/null`,
		passive(database), server.Key, server.Cert, server.CA))
	b.note("db")
	b.sh(`ovs-vsctl --db=unix:$D/db.sock --no-wait init`)
	b.sh(`PATH=$PATH:/usr/lib/openvswitch-switch ovs-vswitchd unix:$D/db.sock --enable-dummy=system --unixctl=$D/switch.ctl --pidfile=$D/switch.pid --detach --log-file=$D/switch.log 2>/dev/null`)
	b.note("switch")
	b.sh(fmt.Sprintf(`ovs-vsctl --db=unix:$D/db.sock set-ssl %s %s %s -- add-br s1 -- set bridge s1 fail_mode=secure protocols=OpenFlow13 -- set-controller s1 %s -- add-port s1 up0`,
		server.Key, server.Cert, server.CA, passive(bridge)))
	return b, "ssl:" + database, "ssl:" + bridge
}

func freeAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestSwitchByTLS: a real Open vSwitch by ssl:HOST:PORT. Right certificates pass, and
// either side refuses a certificate that another authority signed or that lacks the name,
// and a peer that speaks in clear.
func TestSwitchByTLS(t *testing.T) {
	ours, other := tlstest.New(t, "ours"), tlstest.New(t, "other")
	b, database, bridge := newTLSBed(t, ours.Issue(t, "switch"))
	client := ours.Issue(t, "client")
	text := fmt.Sprintf("bridge: s1\novsdb: %s\nopenflow: %s\ntls: {ca: %s, cert: %s, key: %s}\n", database, bridge, client.CA, client.Cert, client.Key) +
		"ports: {up0: {bandwidth: 8mbit, discipline: cbwfq, queues: {a: {min: 1mbit}, b: {min: 1mbit}}}}\nflows: [{match: {udp: 5001}, queue: a}]\n"
	s, err := config.ParseSwitch("s1.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if changes := b.apply(s); !strings.Contains(changes, "up0") {
		t.Errorf("changes: %s", changes)
	}
	if again := b.apply(s); again != "" {
		t.Errorf("a second time: %s", again)
	}
	shown, err := Show(b.context(), "s1", Addresses{OVSDB: database, OpenFlow: bridge, TLS: client})
	if err != nil || len(shown) != 1 || len(shown[0].Flows) == 0 || len(shown[0].Ports) != 1 {
		t.Errorf("shown: %+v, %v", shown, err)
	}
	foreign := other.Issue(t, "client")
	foreign.CA = ours.File
	untrusted, misnamed, open := client, client, client
	untrusted.CA = other.File
	misnamed.ServerName = "another"
	open.Key = b.dir + "/open.key"
	key, err := os.ReadFile(client.Key)
	if err == nil {
		err = os.WriteFile(open.Key, key, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	clear := func(address string) string { return "tcp:" + strings.TrimPrefix(address, "ssl:") }
	unix := "unix:" + b.dir + "/db.sock"
	for _, test := range []struct {
		name  string
		files tlsfile.Files
		want  string
	}{
		{"certificate of another authority", foreign, "refuses the certificate in " + foreign.Cert},
		{"expired certificate", ours.Issue(t, "old", tlstest.Expired), "refuses the certificate in"},
		{"no certificate", tlsfile.Files{CA: ours.File}, "give cert and key"},
		{"switch of another authority", untrusted, "not of the authority in " + other.File},
		{"switch with another name", misnamed, "for another name"},
		{"key that others can read", open, "is open to other users"},
	} {
		for part, place := range map[string]Addresses{
			"ovsdb":    {OVSDB: database, OpenFlow: bridge, TLS: test.files},
			"openflow": {OVSDB: unix, OpenFlow: bridge, TLS: test.files},
		} {
			_, err := Show(b.context(), "s1", place)
			t.Log(err)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), part+" ssl:") {
				t.Errorf("%s, %s: got %v, want %q", test.name, part, err, test.want)
			}
		}
	}
	for part, place := range map[string]Addresses{"ovsdb": {OVSDB: clear(database), OpenFlow: bridge, TLS: client}, "openflow": {OVSDB: unix, OpenFlow: clear(bridge)}} {
		if _, err := Show(b.context(), "s1", place); err == nil || !strings.Contains(err.Error(), part+" tcp:") {
			t.Errorf("in clear, %s: %v", part, err)
		}
	}
}
