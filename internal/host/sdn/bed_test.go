// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
)

var backend = flag.String("backend", "auto", "the agent's backend: auto, bpf or tc")

// bed is an Open vSwitch of its own with a bridge s1, eight hosts and a cable:
// what goes to the hosts 5 to 8 leaves by up0 and comes in again by up1.
//
//	h1..h4 ── s1 ── up0 ══ up1 ── s1 ── h5..h8
type bed struct {
	t   *testing.T
	dir string
	pid map[string]int // of the daemons, by name
}

// newBed skips the test where there is no Open vSwitch or no kernel part of it.
func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: making a switch needs root")
	}
	for _, tool := range []string{"ovsdb-server", "ovs-vsctl", "ovs-ofctl", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP: %s is not installed; the virtual machine has it", tool)
		}
	}
	if out, err := exec.Command("modprobe", "-a", "openvswitch", "veth", "sch_prio").CombinedOutput(); err != nil {
		t.Skipf("SKIP: the kernel has no Open vSwitch; the virtual machine has it: %s", out)
	}
	b := &bed{t: t, dir: t.TempDir(), pid: map[string]int{}}
	b.sh(`ovsdb-tool create $D/conf.db /usr/share/openvswitch/vswitch.ovsschema`)
	t.Cleanup(b.down)
	b.startDB()
	b.sh(`ovs-vsctl --no-wait init`)
	b.startSwitch()
	b.sh(topology)
	return b
}

// startSwitch starts ovs-vswitchd, which Debian keeps out of PATH.
func (b *bed) startSwitch() {
	b.sh(`PATH=$PATH:/usr/lib/openvswitch-switch ovs-vswitchd unix:$D/db.sock --pidfile=$D/switch.pid --detach --log-file=$D/switch.log 2>/dev/null`)
	b.note("switch")
}

func (b *bed) startDB() {
	b.sh(`ovsdb-server $D/conf.db --remote=punix:$D/db.sock --pidfile=$D/db.pid --detach --log-file=$D/db.log 2>/dev/null`)
	b.note("db")
}

func (b *bed) note(name string) {
	pid, err := strconv.Atoi(strings.TrimSpace(b.sh("cat $D/" + name + ".pid")))
	if err != nil {
		b.t.Fatal(err)
	}
	b.pid[name] = pid
}

func (b *bed) kill(name string) {
	b.sh(fmt.Sprintf("kill %d && while kill -0 %d 2>/dev/null; do sleep 0.05; done", b.pid[name], b.pid[name]))
	delete(b.pid, name)
}

func (b *bed) down() {
	if b.pid["db"] != 0 && b.pid["switch"] != 0 {
		b.sh(`ovs-vsctl --timeout=5 del-br s1 || true`)
	}
	for name := range b.pid {
		b.kill(name)
	}
	b.sh(`for i in 1 2 3 4 5 6 7 8; do ip netns del h$i 2>/dev/null || true; done; ip link del up0 2>/dev/null || true`)
}

// sh runs a script with the bed's folder as $D, and returns its output.
func (b *bed) sh(script string) string {
	b.t.Helper()
	cmd := exec.Command("bash", "-euc", script)
	cmd.Env = append(os.Environ(), "D="+b.dir, "OVS_RUNDIR="+b.dir, "OVS_LOGDIR="+b.dir, "OVS_DBDIR="+b.dir)
	out, err := cmd.Output()
	if err != nil {
		detail := ""
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			detail = string(exit.Stderr)
		}
		b.t.Fatalf("%s\n%v: %s", script, err, detail)
	}
	return string(out)
}

const topology = `
ovs-vsctl add-br s1 -- set bridge s1 fail_mode=secure protocols=OpenFlow10,OpenFlow13
add=()
for i in 1 2 3 4 5 6 7 8; do
	ip netns add h$i
	ip link add s1-h$i type veth peer name eth0 address 02:00:00:00:00:0$i netns h$i
	{
		echo addr add 10.0.0.$i/24 dev eth0
		echo -6 addr add fd00::$i/64 dev eth0 nodad
		echo link set eth0 up
		for j in 1 2 3 4 5 6 7 8; do
			[ $i = $j ] || echo "neigh add 10.0.0.$j lladdr 02:00:00:00:00:0$j dev eth0 nud permanent
neigh add fd00::$j lladdr 02:00:00:00:00:0$j dev eth0 nud permanent"
		done
	} | sed 's/^-6 //' | ip -n h$i -batch -
	ip link set s1-h$i up
	add+=(-- add-port s1 s1-h$i -- set interface s1-h$i ofport_request=$i)
done
ip link add up0 type veth peer name up1
ip link set up0 up
ip link set up1 up
ovs-vsctl "${add[@]}" -- add-port s1 up0 -- set interface up0 ofport_request=9 -- add-port s1 up1 -- set interface up1 ofport_request=10
for i in 1 2 3 4; do echo "priority=40,in_port=$i,actions=output:9"; echo "priority=50,dl_dst=02:00:00:00:00:0$i,actions=output:$i"; done >$D/flows
for i in 5 6 7 8; do echo "priority=50,in_port=10,dl_dst=02:00:00:00:00:0$i,actions=output:$i"; done >>$D/flows
ovs-ofctl -O OpenFlow13 add-flows s1 $D/flows
`

// others returns the state of the switch that is not Weir's: flows, and all rows about
// queues.
func (b *bed) others() string {
	return b.sh(`ovs-ofctl -O OpenFlow13 --no-stats dump-flows s1 | grep -v cookie=0x57656972 | sort
ovs-vsctl --columns=_uuid,type,other_config,external_ids,queues list QoS
ovs-vsctl --columns=_uuid,other_config,external_ids,dscp list Queue
ovs-vsctl get port up0 qos`)
}

// file returns a switch file for this bed.
func (b *bed) file(text string) config.Switch {
	b.t.Helper()
	s, err := config.ParseSwitch("s1.yaml", []byte(fmt.Sprintf("bridge: s1\novsdb: unix:%s/db.sock\n", b.dir)+text))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bed) place() Addresses { return Addresses{OVSDB: "unix:" + filepath.Join(b.dir, "db.sock")} }

func (b *bed) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

// apply makes the bridge what s says and returns the changes as text.
func (b *bed) apply(s config.Switch) string {
	b.t.Helper()
	r, err := Apply(b.context(), s, false, false)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(r.Changes, "\n")
}

// count makes a prio qdisc at up0 count the packets of each queue: its handle is that of
// the class numbers that set_queue gives. Packets without a queue are in the last band.
func (b *bed) count() {
	b.sh(`tc qdisc add dev up0 root handle 1: prio bands 8 priomap 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7`)
}

const unqueued = 7

// send has a host send n UDP packets to a port of an address.
func (b *bed) send(host, n int, address string, port int) {
	b.t.Helper()
	b.sh(fmt.Sprintf(`ip netns exec h%d bash -c 'for i in $(seq %d); do echo x >/dev/udp/%s/%d; sleep 0.02; done' 2>/dev/null || true`, host, n, address, port))
}

// inQueues returns how many packets have left by up0 in each queue.
func (b *bed) inQueues() [8]int {
	b.t.Helper()
	var counts [8]int
	band := -1
	for line := range strings.Lines(b.sh(`tc -s class show dev up0`)) {
		var minor, bytes, packets int
		if _, err := fmt.Sscanf(line, "class prio 1:%x", &minor); err == nil {
			band = minor - 1
		}
		if _, err := fmt.Sscanf(line, " Sent %d bytes %d pkt", &bytes, &packets); err == nil && band >= 0 {
			counts[band] = packets
		}
	}
	return counts
}

// startAgent starts an agent that knows nothing but the switch's database, and returns a function
// that runs weir against it. The test fails if the agent does not end well.
func (b *bed) startAgent() (ask func(args ...string) string) {
	b.t.Helper()
	weir, err := exec.LookPath("weir")
	if err != nil {
		b.t.Skip("SKIP: weir is not in PATH; the virtual machine has it")
	}
	file := filepath.Join(b.dir, "weir.yaml")
	text := fmt.Sprintf("sdn: {ovsdb: %q}\ndocker: {enabled: false}\nsocket: %s/weir.sock\nstate_dir: %s\n", b.place().OVSDB, b.dir, b.dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	log := &strings.Builder{}
	agent := exec.Command(weir, "agent", "--config", file, "--backend", *backend)
	agent.Stderr = log
	if err := agent.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = agent.Process.Signal(os.Interrupt)
		if err := agent.Wait(); err != nil || b.t.Failed() {
			b.t.Errorf("agent: %v\n%s", err, log)
		}
	})
	return func(args ...string) string {
		out, err := exec.Command(weir, append(args, "--socket", filepath.Join(b.dir, "weir.sock"))...).CombinedOutput()
		if err != nil {
			b.t.Errorf("weir %q: %v: %s", args, err, out)
		}
		return string(out)
	}
}

// steered reports whether the port has Weir's qdisc.
func (b *bed) steered() bool {
	qdisc := b.sh(`tc qdisc show dev up0`)
	return strings.Contains(qdisc, "weir") || strings.Contains(qdisc, "htb 77e1:") // without BPF qdiscs
}
