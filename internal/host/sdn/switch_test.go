// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/sdn/switchport"
)

const llq = `
ports:
  up0:
    bandwidth: 8mbit
    discipline: llq
    queues: {voice: {rate: 1mbit}, video: {min: 3mbit, dscp: af41}, rest: {min: 1mbit}}
flows:
  - {match: {in_port: s1-h1, udp: 5001}, port: up0, queue: voice, forward: true}
  - {match: {in_port: s1-h2, udp: 5001-5010}, port: up0, queue: video}
  - {match: {preset: voip}, queue: voice}
  - {match: {dst: fd00::7/128}, queue: video}
`

// TestApplyTwiceAndDelete: the second time changes nothing, traffic is in its
// queues, others' flows stay, and in the end all is as it was found.
func TestApplyTwiceAndDelete(t *testing.T) {
	b := newBed(t)
	before := b.others()
	s := b.file(llq)

	dry, err := Apply(b.context(), s, false, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(dry.Changes) != 2 || b.others() != before {
		t.Errorf("the dry run says %q, and afterwards there is\n%s", dry.Changes, b.others())
	}
	changes := b.apply(s)
	want := "port up0: llq at 8 Mbit/s, voice rate 1 Mbit/s, video min 3 Mbit/s, rest min 1 Mbit/s\nflows: 51 added"
	t.Logf("applied:\n%s\n%s", changes, b.sh("ovs-ofctl -O OpenFlow13 --no-stats dump-flows s1; ovs-vsctl list QoS; ovs-vsctl list Queue"))
	if changes != want {
		t.Errorf("got  %s\nwant %s", changes, want)
	}
	if again := b.apply(s); again != "" {
		t.Errorf("the second time changes %s", again)
	}
	b.traffic()
	b.sh(`ovs-ofctl -O OpenFlow13 add-flow s1 cookie=0x42,priority=61000,udp,tp_dst=9,actions=drop`)
	now := b.others()
	if !strings.Contains(now, "cookie=0x42") {
		t.Fatalf("the foreign flow is not there:\n%s", now)
	}
	fewer := b.file(strings.Replace(llq, "  - {match: {preset: voip}, queue: voice}\n", "", 1))
	if changes := b.apply(fewer); !strings.HasPrefix(changes, "flows: ") || !strings.HasSuffix(changes, " removed") {
		t.Errorf("without the preset: %s", changes)
	}
	if b.others() != now {
		t.Errorf("what is not Weir's has changed:\n%s\nbefore:\n%s", b.others(), now)
	}
	r, err := Delete(b.context(), "s1", b.place(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("deleted: %q", r.Changes)
	b.sh(`ovs-ofctl -O OpenFlow13 --strict del-flows s1 priority=61000,udp,tp_dst=9`)
	if after := b.others(); after != before {
		t.Errorf("left behind:\n%s\nfound:\n%s", after, before)
	}
	if own := b.sh(`ovs-ofctl -O OpenFlow13 dump-flows s1 cookie=0x5765697200000000/0xffffffff00000000 | grep -c priority || true`); own != "0\n" {
		t.Errorf("%s flows of Weir's are left", own)
	}
	if r, err := Delete(b.context(), "s1", b.place(), false); err != nil || len(r.Changes) != 0 {
		t.Errorf("the second time deletes %q, %v", r.Changes, err)
	}
}

// traffic sends IPv4 and IPv6 and looks at the queues that it leaves up0 in.
func (b *bed) traffic() {
	b.count()
	for _, to := range []string{"10.0.0.", "fd00::"} {
		b.send(1, 3, to+"5", 5001) // voice, forwarded by Weir's flow
		b.send(2, 2, to+"6", 5010) // video, by the switch's own flow
		b.send(2, 1, to+"6", 5011) // none
		b.send(3, 4, to+"7", 5060) // voip; IPv6 too, since the flow comes first
	}
	b.send(3, 5, "fd00::7", 7777) // video
	got := b.inQueues()
	if got[0] != 2*3+2*4 || got[1] != 2*2+5 || got[2] != 0 || got[unqueued] < 2 {
		b.t.Errorf("packets per queue %v, want 14, 9, 0 and at least 2 in none", got)
	}
	// What goes to h7 meets the flows again when it comes in by up1. The switch's
	// own counters follow the kernel's within a second.
	shown := b.shown()
	for wait := 0; wait < 100 && (shown.Ports[0].Queues[0].Packets != 22 || shown.Ports[0].Queues[1].Packets != 14); wait++ {
		time.Sleep(100 * time.Millisecond)
		shown = b.shown()
	}
	q := shown.Ports[0].Queues
	if len(q) != 3 || q[0].Packets != 22 || q[1].Packets != 14 || q[2].Packets != 0 || q[1].MinBps != 3e6 || *q[1].DSCP != 34 {
		b.t.Errorf("queues shown: %+v", q)
	}
	if shown.ForeignFlows != 12 {
		b.t.Errorf("%d foreign flows, want 12", shown.ForeignFlows)
	}
	if qdisc := b.sh(`tc qdisc show dev up0`); !strings.Contains(qdisc, "qdisc prio 1: root") {
		b.t.Errorf("the switch has replaced the qdisc: %s", qdisc)
	}
	b.sh(`tc qdisc del dev up0 root`)
}

// shown returns the one bridge that has something of Weir's, and its one port.
func (b *bed) shown() Bridge {
	b.t.Helper()
	shown, err := Show(b.context(), "", b.place())
	if err != nil || len(shown) != 1 || len(shown[0].Ports) != 1 {
		b.t.Fatalf("shown: %+v, %v", shown, err)
	}
	return shown[0]
}

// TestForeignQueues: another program's rows are refused, taken by force, and put back.
func TestForeignQueues(t *testing.T) {
	b := newBed(t)
	b.sh(`ovs-vsctl set port up0 qos=@q -- --id=@q create qos type=linux-noop other_config:max-rate=1000000 queues:0=@a -- --id=@a create queue other_config:min-rate=1000`)
	before := b.others()
	s := b.file(llq)
	if _, err := Apply(b.context(), s, false, false); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "port up0 of bridge s1 has a QoS row of type \"linux-noop\"") {
		t.Errorf("a foreign row: %v", err)
	}
	if b.others() != before {
		t.Errorf("a refused file has changed the switch:\n%s\nbefore:\n%s", b.others(), before)
	}
	r, err := Apply(b.context(), s, true, false)
	if err != nil || len(r.Changes) != 2 || !strings.Contains(r.Changes[0], "instead of the QoS row") {
		t.Errorf("by force: %q, %v", r.Changes, err)
	}
	if again := b.apply(s); again != "" {
		t.Errorf("the second time changes %s", again)
	}
	if _, err := Delete(b.context(), "s1", b.place(), false); err != nil {
		t.Error(err)
	}
	if after := b.others(); after != before {
		t.Errorf("left behind:\n%s\nfound:\n%s", after, before)
	}
}

// TestRefusedFlowsChangeNothing: a switch whose table is full keeps queues and
// flows as they were.
func TestRefusedFlowsChangeNothing(t *testing.T) {
	b := newBed(t)
	small := b.file(`
ports: {up0: {bandwidth: 4mbit, discipline: pq, queues: {a: {}, b: {}}}}
flows: [{match: {udp: 7}, queue: a}]
`)
	b.apply(small)
	b.sh(`ovs-vsctl -- --id=@t create Flow_Table flow_limit=20 overflow_policy=refuse -- set bridge s1 flow_tables:0=@t`)
	flows := `ovs-ofctl -O OpenFlow13 --no-stats dump-flows s1 | sort`
	before := b.sh(flows)
	_, err := Apply(b.context(), b.file(llq), false, false)
	if err == nil || !strings.Contains(err.Error(), "flow table is full") || !strings.HasSuffix(err.Error(), "no change was made") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a full table: %v", err)
	}
	if after := b.sh(flows); after != before {
		t.Errorf("flows:\n%s\nbefore:\n%s", after, before)
	}
	if again := b.apply(small); again != "" {
		t.Errorf("the queues are not as before: %s", again)
	}
}

// TestUnknownThings: one line names the missing object and the ones that exist.
func TestUnknownThings(t *testing.T) {
	b := newBed(t)
	s := b.file(llq)
	for _, tt := range []struct {
		name, want string
		change     func()
	}{
		{"bridge", `s1.yaml: bridge "s2": the switch has no such bridge; did you mean s1?`, func() { s.Bridge = "s2" }},
		{"port", `s1.yaml: port "up7": bridge s1 has no such port; did you mean up0 or up1?`, func() { s.Ports[0].Name = "up7" }},
		{"database", "ovsdb unix:/no/db.sock: no such file or directory", func() { s.OVSDB = "unix:/no/db.sock" }},
		{"address of the bridge", "openflow unix:/no/s1.mgmt: no such file or directory", func() { s.OpenFlow = "unix:/no/s1.mgmt" }},
	} {
		s = b.file(llq)
		tt.change()
		if _, err := Apply(b.context(), s, false, false); err == nil || err.Error() != tt.want {
			t.Errorf("%s:\ngot  %v\nwant %s", tt.name, err, tt.want)
		}
	}
	if _, err := Show(b.context(), "s3", b.place()); err == nil || !strings.Contains(err.Error(), "did you mean s1?") {
		t.Errorf("show: %v", err)
	}
}

// TestWatch: the agent's side sees what apply and delete do, also when the
// database was away meanwhile.
func TestWatch(t *testing.T) {
	b := newBed(t)
	reports := make(chan switchport.Report, 100)
	w := &switchport.Watch{Address: b.place().OVSDB, Log: slog.New(slog.DiscardHandler)}
	go func() { _ = w.Run(b.context(), func(r switchport.Report) { reports <- r }) }()
	next := func(what string) switchport.Report {
		t.Helper()
		select {
		case r := <-reports:
			return r
		case <-time.After(30 * time.Second):
			t.Fatalf("no report of %s", what)
			return switchport.Report{}
		}
	}
	if r := next("nothing"); len(r.Ports)+len(r.Wrong) > 0 {
		t.Errorf("at first: %+v", r)
	}
	s := b.file(llq)
	b.apply(s)
	r := next("the port")
	if len(r.Ports) != 1 || r.Ports[0].Device != "up0" || r.Ports[0].Bandwidth != 8e6 ||
		r.Ports[0].Policy.Discipline != "llq" || len(r.Ports[0].Policy.Queues) != 3 {
		t.Fatalf("applied: %+v", r)
	}
	if state, note := w.Status(); state != workload.SourceOK || note != w.Address {
		t.Errorf("connected: %s, %s", state, note)
	}
	b.kill("db")
	for wait := 0; wait < 100; wait++ {
		if state, _ := w.Status(); state != workload.SourceOK {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if state, note := w.Status(); state != workload.SourceUnavailable || !strings.HasSuffix(note, "; its ports stay as they are") {
		t.Errorf("the database is away: %s, %s", state, note)
	}
	b.startDB()
	time.Sleep(2 * time.Second)
	s.Ports[0].Bandwidth = 9e6
	b.apply(s)
	if r := next("a change after the database was away"); len(r.Ports) != 1 || r.Ports[0].Bandwidth != 9e6 {
		t.Errorf("after the database was away: %+v", r)
	}
	for i := range 50 { // at no moment does the port seem to have no rows
		s.Ports[0].Bandwidth = policy.Rate(10e6 + 1e6*(i%2))
		b.apply(s)
		for len(reports) > 0 {
			if r = <-reports; len(r.Ports) != 1 || len(r.Wrong) != 0 {
				t.Fatalf("change %d: %+v", i, r)
			}
		}
	}
	for r.Ports[0].Bandwidth != 11e6 || len(reports) > 0 {
		if r = next("the last of many changes"); len(r.Ports) != 1 {
			t.Fatalf("after all changes: %+v", r)
		}
	}
	b.sh(`ovs-vsctl set qos $(ovs-vsctl get port up0 qos) other_config:weir-discipline=cbq`)
	if r := next("a mistake"); len(r.Ports) != 0 || len(r.Wrong) != 1 || !strings.Contains(r.Wrong[0].Why, `weir-discipline "cbq"`) {
		t.Errorf("a mistake: %+v", r)
	}
	if _, err := Delete(b.context(), "s1", b.place(), false); err != nil {
		t.Fatal(err)
	}
	if r := next("the end"); len(r.Ports)+len(r.Wrong) > 0 {
		t.Errorf("deleted: %+v", r)
	}
}

// TestAgentTakesThePort: an agent that knows nothing but the database schedules
// the port, keeps it when the switch is started again, and gives it back.
func TestAgentTakesThePort(t *testing.T) {
	b := newBed(t)
	ask := b.startAgent()
	qdisc := func() string { return b.sh(`tc qdisc show dev up0`) }
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for range 300 {
			if holds() {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("not within 30 s: %s; the qdisc is %s", what, qdisc())
	}
	found := qdisc()
	b.apply(b.file(llq))
	eventually("the agent takes the port", b.steered)
	b.kill("switch")
	b.startSwitch()
	time.Sleep(time.Second)
	if !b.steered() {
		t.Errorf("the switch was started again, and the qdisc is %s", qdisc())
	}

	// The database goes away and comes back, for the agent and for the switch.
	says := func(words ...string) func() bool {
		return func() bool {
			text := ask(words[0])
			for _, w := range words[1:] {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return true
		}
	}
	eventually("status names the database", says("status", "ovsdb    ok", "up0"))
	was := qdisc()
	b.kill("db")
	eventually("status says that the database is away", says("status", "ovsdb    unavailable", "its ports stay as they are"))
	if policy := ask("get", "host"); qdisc() != was || !strings.Contains(policy, "llq, as the switch says of this port") {
		t.Errorf("while the database is away the qdisc is %s, was %s; the host:\n%s", qdisc(), was, policy)
	}
	b.startDB()
	eventually("the agent is connected again", says("status", "ovsdb    ok"))
	if policy := ask("get", "host"); qdisc() != was || !strings.Contains(policy, "llq, as the switch says of this port") {
		t.Errorf("after the database was away the qdisc is %s, was %s; the host:\n%s", qdisc(), was, policy)
	}
	b.apply(b.file(strings.Replace(llq, "bandwidth: 8mbit", "bandwidth: 9mbit", 1)))
	eventually("a change after that is in force", says("status", "9 Mbit/s"))
	if qdisc() != was {
		t.Errorf("for a new rate the qdisc is %s, was %s", qdisc(), was)
	}

	if _, err := Delete(b.context(), "s1", b.place(), false); err != nil {
		t.Fatal(err)
	}
	eventually("the agent gives the port back", func() bool { return qdisc() == found })
}
