// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api"
	"weir/internal/core/control"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/host/dataplane/fake"
	"weir/internal/host/dataplane/goodput"
)

// network plays what is beyond the kernel: whatever the interval of a class lets go
// leaves, and the payload in it is delivered.
type network struct {
	host *host

	mu       sync.Mutex
	payload  float64 // part of the wire bytes; 1448/1514 by default
	demand   float64 // wire bit/s; 0 = all that is let go
	readings map[plan.ClassID]goodput.Reading
	rest     map[plan.ClassID]float64 // bits that are not yet a byte
	watched  []plan.Port
	broken   error
}

// networked gives a host a network and a meter.
func networked(h *host) *network {
	n := &network{host: h, payload: 1448. / 1514, readings: map[plan.ClassID]goodput.Reading{}, rest: map[plan.ClassID]float64{}}
	h.goodput = func() (Meter, error) { return n, n.broken }
	done := make(chan bool)
	h.t.Cleanup(func() { close(done) })
	go func() {
		wait := networkTick / 3 // never at the same instant as the agent
		for {
			select {
			case <-h.t.Context().Done():
				return
			case <-time.After(wait):
				n.pass(networkTick.Seconds())
				wait = networkTick
			}
		}
	}()
	return n
}

const networkTick = 25 * time.Millisecond

func (n *network) pass(seconds float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.host.kernel.State("eth0").Classes {
		wire, backlog := c.Interval.Rate(), uint64(5)
		if wire == 0 {
			continue
		}
		if n.demand != 0 && n.demand < wire {
			wire, backlog = n.demand, 0
		}
		n.rest[c.ID] += wire * seconds
		bytes := math.Floor(n.rest[c.ID] / 8)
		n.rest[c.ID] -= 8 * bytes
		n.host.kernel.Send("eth0", c.ID, fake.ClassTraffic{Bytes: uint64(bytes), Backlog: backlog})
		r := n.readings[c.ID]
		r.Acked += uint64(bytes * n.payload)
		r.Sent = r.Acked
		n.readings[c.ID] = r
	}
}

func (n *network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *network) Watch(ports []plan.Port, _ []int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watched = ports
	return nil
}

func (n *network) Read() (map[plan.ClassID]goodput.Reading, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[plan.ClassID]goodput.Reading{}
	for _, p := range n.watched {
		all[p.Class] = n.readings[p.Class]
	}
	return all, nil
}

// Flows are two, of which one has ended.
func (n *network) Flows(class plan.ClassID) ([]goodput.Flow, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := netip.MustParseAddrPort
	return []goodput.Flow{
		{Protocol: "tcp", Local: at("10.0.0.2:40000"), Remote: at("192.0.2.1:443"), Queue: 1, Counts: n.readings[class].Counts},
		{Protocol: "tcp", Local: at("10.0.0.2:40001"), Remote: at("192.0.2.1:443"), Counts: goodput.Counts{Acked: 1e9}},
	}, nil
}

func (n *network) Close() error { return nil }

// loop is the only one of a workload.
func (h *host) loop(name string) api.ControlLoop {
	h.t.Helper()
	c, err := h.Control(h.t.Context(), name)
	if err != nil || len(c.Loops) != 1 {
		h.t.Fatalf("loops of %s: %+v, %v", name, c, err)
	}
	return c.Loops[0]
}

func within(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

func (h *host) expectGoodput(what, name string, want, part float64) {
	h.t.Helper()
	l := h.loop(name)
	if l.GoodputBps == nil || !within(*l.GoodputBps, want, part) {
		h.t.Errorf("%s: %+v", what, l)
	}
}

// TestReservation: 10 Mbit/s of payload become 10 Mbit/s of payload, whatever it
// takes, and every view shows it.
func TestReservation(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		h.start()
		h.run("web", "weir.reserve=10mbit")
		h.expect("counts as a min", "eth0", "0 host weight 1\n1 web weight 1 min 10.455802 Mbit/s: vethweb")
		seconds(5)
		h.expectGoodput("full segments", "web", 10e6, 0.005)
		n.set(func() { n.payload = 0.8 })
		seconds(10)
		h.expectGoodput("small segments", "web", 10e6, 0.005)
		l := h.loop("web")
		if l.Mode != "settled" || l.Limiter != "on" || !within(l.WireBps, 12.5e6, 0.01) || !within(l.IntervalNs, 640, 0.01) || len(l.HistoryBps) < 10 {
			t.Errorf("loop %+v", l)
		}
		w := h.workload("web")
		if wl := w.Links[0]; wl.ReserveBps != 10e6 || wl.GoodputBps == nil || wl.Control != "settled" || !within(wl.IdealBps, 12.5e6, 0.01) {
			t.Errorf("workload %+v", wl)
		}
		e, err := h.Explain(t.Context(), "web")
		if text := strings.Join(e.Links[0].Text, " "); err != nil || !strings.Contains(text, "for its reservation of 10 Mbit/s of payload") {
			t.Errorf("explanation %q, %v", text, err)
		}
		if strings.Count(h.log.String(), "interval") > 2 {
			t.Errorf("the log fills with intervals:\n%s", h.log)
		}
		if _, err := h.Control(t.Context(), "host"); err != nil {
			t.Errorf("a workload without a reservation: %v", err)
		}
	})
}

// TestReservationOutlivesTheAgent: the interval stays in force without an agent, and
// the next one goes on where the last one was.
func TestReservationOutlivesTheAgent(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		n.payload = 0.7
		h.start()
		h.run("web", "weir.reserve=10mbit")
		seconds(20)
		found := h.kernel.State("eth0").Classes[1].Interval
		if !within(found.Rate(), 10e6/0.7, 0.005) {
			t.Fatalf("holds %s", found)
		}
		h.stop()
		seconds(60)
		if now := h.kernel.State("eth0").Classes[1].Interval; now != found {
			t.Errorf("without an agent the interval went from %s to %s", found, now)
		}
		h.start()
		if now := h.kernel.State("eth0").Classes[1].Interval; !within(float64(now), float64(found), 1e-6) {
			t.Errorf("the next agent makes %s of %s", now, found)
		}
		seconds(5)
		h.expectGoodput("the next agent", "web", 10e6, 0.005)
	})
}

// TestDemandBelowReservation is no error, and the interval stays.
func TestDemandBelowReservation(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		h.start()
		h.run("web", "weir.reserve=10mbit")
		seconds(10)
		before := h.loop("web").WireBps
		n.set(func() { n.demand = 3e6 })
		seconds(30)
		l := h.loop("web")
		if l.Mode != "limited" || l.Limiter != "off" || l.WireBps != before || !strings.HasPrefix(l.Why, "demand below reservation: 3 Mbit/s offered") {
			t.Errorf("%+v", l)
		}
		n.set(func() { n.demand = 1 })
		seconds(3)
		e, err := h.Explain(t.Context(), "web")
		if text := strings.Join(e.Links[0].Text, " "); err != nil || !strings.Contains(text, "which is what its reservation of 10 Mbit/s of payload takes on the wire") {
			t.Errorf("explanation %q, %v", text, err)
		}
		n.set(func() { n.demand = 0 })
		seconds(2)
		h.expectGoodput("when it wants it again", "web", 10e6, 0.005)
	})
}

// TestControlChanges: frozen and gains outlive the agent; unstable gains are refused.
func TestControlChanges(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		h.start()
		h.run("web", "weir.reserve=10mbit")
		seconds(5)
		change := func(c api.ControlChange) error {
			_, err := h.SetControl(t.Context(), "web", c, false)
			return err
		}
		if err := change(api.ControlChange{Freeze: new(true)}); err != nil {
			t.Fatal(err)
		}
		before := h.loop("web").WireBps
		n.set(func() { n.payload = 0.8 })
		seconds(10)
		if l := h.loop("web"); !l.Frozen || l.Mode != "frozen" || l.WireBps != before {
			t.Errorf("frozen: %+v", l)
		}
		h.stop()
		h.start()
		seconds(5)
		if l := h.loop("web"); !l.Frozen || !within(l.WireBps, before, 1e-6) {
			t.Errorf("frozen after a restart: %+v", l)
		}
		if err := change(api.ControlChange{Freeze: new(false), Gains: &api.Gains{Kc: 0.125, Ti: 0.146, Td: 1}}); err != nil {
			t.Fatal(err)
		}
		seconds(20)
		h.expectGoodput("thawed", "web", 10e6, 0.01)
		unstable := api.Gains{Kc: 0.877, Ti: 1.142, Td: 0.1279}
		refused(t, change(api.ControlChange{Gains: &unstable}), refusal.Invalid, "the loop is not stable there", "lower kc")
		if l := h.loop("web"); l.Gains.Td != 1 {
			t.Errorf("gains %+v", l.Gains)
		}
		if err := change(api.ControlChange{Gains: &unstable, Force: true}); err != nil || h.loop("web").Gains != unstable {
			t.Errorf("forced: %v", err)
		}
		if err := change(api.ControlChange{DefaultGains: true}); err != nil || h.loop("web").Gains != api.Gains(control.Default) {
			t.Errorf("defaults: %v", err)
		}
		refused(t, change(api.ControlChange{}), refusal.Invalid, "nothing to change")
		h.run("batch")
		_, err := h.SetControl(t.Context(), "batch", api.ControlChange{Freeze: new(true)}, false)
		refused(t, err, refusal.Conflict, "batch has no reservation in force", "--reserve")
	})
}

// What was set about controllers goes along when a container is renamed, and not to the next
// one that has its former name; weir detach ends it.
func TestControlsFollowTheirWorkload(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		networked(h)
		h.start()
		freeze := func(name string) {
			t.Helper()
			seconds(5)
			if _, err := h.SetControl(t.Context(), name, api.ControlChange{Freeze: new(true)}, false); err != nil {
				t.Fatal(err)
			}
		}
		h.run("web", "weir.reserve=10mbit")
		freeze("web")
		h.rename("web", "front")
		h.run("web", "weir.reserve=10mbit")
		seconds(5)
		if front, web := h.loop("front"), h.loop("web"); !front.Frozen || web.Frozen {
			t.Errorf("frozen: the renamed container %v, its successor %v", front.Frozen, web.Frozen)
		}
		attach := func() {
			t.Helper()
			if _, err := h.Attach(t.Context(), api.AttachRequest{Name: "lab", Netns: "lab", Policy: change("reserve=10mbit")}, false); err != nil {
				t.Fatal(err)
			}
		}
		attach()
		freeze("lab")
		if _, err := h.Detach(t.Context(), "lab", false); err != nil {
			t.Fatal(err)
		}
		attach()
		seconds(5)
		if h.loop("lab").Frozen {
			t.Error("frozen after weir detach and weir attach")
		}
	})
}

// TestReservationsAreAdmitted: one without room is refused with the numbers.
func TestReservationsAreAdmitted(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		networked(h)
		h.start()
		h.run("web", "weir.reserve=60mbit")
		h.run("db")
		_, err := h.Set(t.Context(), "db", change("reserve=50mbit"), false)
		refused(t, err, refusal.NoRoom, "reserve: link eth0 has no room for it: asked 52.3 Mbit/s (50 Mbit/s of payload)",
			"reserved 62.734807 Mbit/s of 100 Mbit/s", "free 37.265193 Mbit/s", "ask for 35.640686mbit or less")
		h.set("db", "reserve=30mbit")
		h.run("cam", "weir.reserve=50mbit")
		if w := h.workload("cam"); w.State != "refused" || !strings.Contains(w.Note, "reserve is not in force") || w.Links[0].ReserveBps != 0 {
			t.Errorf("%+v", w)
		}
		_, err = h.Set(t.Context(), "db", change("max=20mbit"), false)
		refused(t, err, refusal.Invalid, "above the max")
	})
}

// TestTargetsChange: a target that is changed every second for two minutes makes
// nothing oscillate, and nothing exceeds what was admitted. (Ten minutes, without an
// agent around it, are in package control.)
func TestTargetsChange(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		n.payload = 0.9
		h.start()
		h.run("web", "weir.reserve=10mbit")
		seconds(10)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 120 {
			target := 1e6 * (1 + rng.IntN(80))
			h.set("web", fmt.Sprintf("reserve=%dbit", target))
			seconds(1)
			class := h.kernel.State("eth0").Classes[1]
			if class.Min != policy.WireOf(policy.Rate(target), 0) || class.Min > 100e6 {
				t.Fatalf("second %d: %+v", i, class)
			}
			if rate := class.Interval.Rate() / float64(target); rate < 1 || rate > 1.2 {
				t.Fatalf("second %d: %.3f of the target on the wire", i, rate)
			}
		}
		seconds(5)
		h.set("web", "reserve=10mbit")
		seconds(4)
		h.expectGoodput("in the end", "web", 10e6, 0.005)
	})
}

// TestTune: the experiment finds the plant, gives the loop back and can be applied.
func TestTune(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		n.payload = 0.9
		h.start()
		h.run("web", "weir.reserve=10mbit")
		_, err := h.Tune(t.Context(), "web", api.TuneRequest{})
		refused(t, err, refusal.Conflict, "nothing measures") // the first second is not over
		seconds(10)
		before := h.loop("web").WireBps
		r, err := h.Tune(t.Context(), "web", api.TuneRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if !within(r.Gain, 0.9, 0.02) || r.Delay+r.Lag > 0.3 || len(r.Points) < 50 || r.Applied || r.Verdict == "" {
			t.Errorf("%+v", r)
		}
		if l := h.loop("web"); l.Frozen || l.WireBps != before || l.Gains != r.Before {
			t.Errorf("after it: %+v", l)
		}
		r, err = h.Tune(t.Context(), "web", api.TuneRequest{Method: "relay", Apply: true})
		if err != nil {
			t.Fatal(err)
		}
		if l := h.loop("web"); !r.Applied || l.Gains != r.Suggested || r.UltimatePeriod < 2 {
			t.Errorf("applied: %+v, %+v", r, l)
		}
		seconds(20)
		h.expectGoodput("with the suggested gains", "web", 10e6, 0.005)
		n.set(func() { n.demand = 1e6 })
		seconds(5)
		_, err = h.Tune(t.Context(), "web", api.TuneRequest{})
		refused(t, err, refusal.Conflict, "less than its reservation")
	})
}

// TestReserveOfAQueue: by its name, beside what the queues are.
func TestReserveOfAQueue(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		networked(h)
		h.start()
		h.run("pbx", "weir.discipline=cbwfq", "weir.queues={video: {match: [{udp: 5001}]}, rest: {}}")
		c := change("reserve=2mbit")
		c.ReserveQueue = "video"
		result, err := h.Set(t.Context(), "pbx", c, false)
		if err != nil || !strings.Contains(fmt.Sprint(result.Changes), "reserve 2 Mbit/s") {
			t.Fatalf("%+v, %v", result.Changes, err)
		}
		class := h.kernel.State("eth0").Classes[1]
		if class.Reserve != 0 || class.Queues[0].Reserve != 2e6 || class.Queues[0].Interval == 0 || class.Min != policy.WireOf(2e6, 0) {
			t.Errorf("%+v", class)
		}
		if l := h.loop("pbx"); l.Queue != "video" || l.TargetBps != 2e6 {
			t.Errorf("%+v", l)
		}
		c.ReserveQueue = "voice"
		_, err = h.Set(t.Context(), "pbx", c, false)
		refused(t, err, refusal.Invalid, "no such queue", "it has video, rest")
	})
}

// TestNoMeter: without one the interval is what headers alone demand, and says so.
func TestNoMeter(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		n := networked(h)
		n.broken = fmt.Errorf("tcx is there from Linux 6.6 on")
		h.goodput = func() (Meter, error) { return nil, n.broken }
		h.start()
		h.run("web", "weir.reserve=10mbit")
		seconds(10)
		l := h.loop("web")
		if l.Mode != "unmeasured" || l.GoodputBps != nil || !within(l.WireBps, 10.4558e6, 1e-4) || !strings.Contains(l.Why, "Linux 6.6") {
			t.Errorf("%+v", l)
		}
		synctest.Wait()
	})
}

// TestFlows: connections are measured for a second, and those that are idle are not
// told of.
func TestFlows(t *testing.T) {
	inBubble(t, "workloads:\n  web: {discipline: pq, queues: {a: {match: [{tcp: 80}]}, b: {}}}\n", func(t *testing.T, h *host) {
		networked(h)
		h.start()
		h.run("batch")
		if _, err := h.Flows(t.Context(), "batch"); err == nil || !strings.Contains(err.Error(), "no reservation in force") {
			t.Errorf("without a reservation: %v", err)
		}
		h.run("web", "weir.reserve=10mbit")
		seconds(5)
		f, err := h.Flows(t.Context(), "web")
		if err != nil || f.Name != "web" || !within(f.Seconds, 1, 1e-6) || len(f.Flows) != 1 {
			t.Fatalf("%+v, %v", f, err)
		}
		if x := f.Flows[0]; x.Local != "10.0.0.2:40000" || x.Queue != "b" || !within(x.SentBps, 10e6, 0.05) || x.ReceivedBps != 0 {
			t.Errorf("%+v", x)
		}
	})
}
