// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math"
	"testing"
	"time"

	"weir/internal/core/control"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/goodput"
)

const mega = 1e6

// world is a link whose class 1 is sent at its interval, and 1448 of 1514 bytes are
// payload; with again, one segment in a hundred is sent twice.
type world struct {
	t     *testing.T
	pacer *Pacer
	want  plan.State
	at    time.Time
	c     dataplane.Counters
	r     goodput.Reading
	again bool
	udp   bool
	drops float64 // part of the offered packets
}

func newWorld(t *testing.T, direction policy.Direction, p policy.Policy, settings Options) *world {
	t.Helper()
	w := &world{t: t, at: time.Unix(1e9, 0)}
	w.plan(p)
	w.pacer = New(direction, func(string, string) Options { return settings })
	w.pacer.Follow(w.want)
	return w
}

func (w *world) plan(p policy.Policy) {
	w.t.Helper()
	link := plan.Link{Device: "eth0", Capacity: 100 * mega, Reserve: 1, Scheduler: plan.SchedulerFair}
	state, refusals, err := plan.Build(link, []plan.Workload{{Key: "w", Name: "web", Policy: p}}, map[string]plan.ClassID{"w": 1})
	if err != nil || len(refusals) > 0 {
		w.t.Fatal(err, refusals)
	}
	w.want = state
}

func reserve(r policy.Rate) policy.Policy {
	return policy.Policy{Weight: 1, Reserve: policy.Amount{Rate: r}}
}

// second lets a second pass.
func (w *world) second() {
	class, _ := w.pacer.Paced(w.want).Class(1)
	wire := class.Interval.Rate()
	if wire == 0 {
		wire = class.Queues[0].Interval.Rate()
	}
	sent := uint64(wire / 8)
	payload := sent * 1448 / 1514
	if w.again {
		payload = payload * 99 / 100
	}
	w.at = w.at.Add(time.Second)
	w.c.SentBytes += sent
	w.c.SentPackets += sent / 1514
	offered := uint64(float64(sent) / (1 - w.drops))
	w.c.EnqueuedBytes += offered
	w.c.BacklogPackets = 9
	if w.udp {
		w.r.Datagrams += uint64(float64(payload) / (1 - w.drops))
		w.r.DatagramsReceived += payload
	} else {
		w.r.Acked += payload
		w.r.Received += payload
	}
	w.r.Queues[0] = w.r.Counts
	w.c.Queues = nil
	if len(class.Queues) > 0 {
		w.c.Queues = []dataplane.QueueCounters{{EnqueuedBytes: w.c.EnqueuedBytes, SentBytes: w.c.SentBytes, BacklogPackets: 9}, {}}
	}
	w.pacer.Step(dataplane.LinkCounters{At: w.at, Classes: map[plan.ClassID]dataplane.Counters{1: w.c}},
		Measured{At: w.at, Readings: map[plan.ClassID]goodput.Reading{1: w.r}})
}

func (w *world) run(seconds int) control.State {
	for range seconds {
		w.second()
	}
	return w.pacer.Loops()[0].Controller.State()
}

func near(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

// TestHoldsGoodput: of a class or a queue, TCP or UDP, in both directions.
func TestHoldsGoodput(t *testing.T) {
	queue := policy.Policy{Weight: 1, Discipline: discipline.CBWFQ, Queues: []policy.Queue{
		{Name: "a", Reserve: policy.Amount{Rate: 10 * mega}, Match: []classify.Match{{UDP: []classify.PortRange{{First: 1, Last: 1}}}}}, {Name: "b"}}}
	for _, tt := range []struct {
		name      string
		direction policy.Direction
		p         policy.Policy
		change    func(*world)
	}{
		{"TCP", policy.Egress, reserve(10 * mega), func(*world) {}},
		{"TCP that sends again", policy.Egress, reserve(10 * mega), func(w *world) { w.again = true }},
		{"UDP above its reservation", policy.Egress, reserve(10 * mega), func(w *world) { w.udp, w.drops = true, 0.5 }},
		{"ingress", policy.Ingress, reserve(10 * mega), func(w *world) { w.again = true }},
		{"UDP that comes", policy.Ingress, reserve(10 * mega), func(w *world) { w.udp = true }},
		{"a queue", policy.Egress, queue, func(w *world) { w.again = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.direction, tt.p, Options{})
			tt.change(w)
			st := w.run(12)
			if st.Mode != control.Settled || !near(st.Goodput, 10*mega, 0.005) {
				t.Errorf("%+v: %s", st, st.Why())
			}
			if h := w.pacer.Loops()[0].Monitor.History(); len(h) != 11 || !near(h[10], 10*mega, 0.005) {
				t.Errorf("history %v", h)
			}
		})
	}
}

// TestFollow: a new target is met at once; what has no reservation has no loop.
func TestFollow(t *testing.T) {
	w := newWorld(t, policy.Egress, reserve(10*mega), Options{})
	w.again = true
	before := w.run(10)
	w.plan(reserve(20 * mega))
	w.pacer.Follow(w.want)
	if st := w.pacer.Loops()[0].Controller.State(); !near(st.Wire, 2*before.Wire, 1e-9) {
		t.Errorf("twice the target makes %v of %v", st.Wire, before.Wire)
	}
	if st := w.run(3); !near(st.Goodput, 20*mega, 0.005) {
		t.Errorf("%+v", st)
	}
	w.plan(policy.Default())
	w.pacer.Follow(w.want)
	if w.pacer.Busy() || len(w.pacer.Watched()) != 0 {
		t.Error("a loop without a reservation")
	}
	if got := w.pacer.Paced(w.want); !got.Classes[1].Equal(w.want.Classes[1]) {
		t.Errorf("paced %+v", got.Classes[1])
	}
}

// TestAdopt: an agent that starts again goes on where the last one was.
func TestAdopt(t *testing.T) {
	w := newWorld(t, policy.Egress, reserve(10*mega), Options{})
	w.again = true
	w.run(10)
	left := w.pacer.Paced(w.want)
	next := newWorld(t, policy.Egress, reserve(10*mega), Options{})
	next.pacer.Adopt(left)
	if got := next.pacer.Paced(next.want); !got.Classes[1].Equal(left.Classes[1]) {
		t.Errorf("adopted %v of %v", got.Classes[1].Interval, left.Classes[1].Interval)
	}
	half := newWorld(t, policy.Egress, reserve(5*mega), Options{})
	half.pacer.Adopt(left)
	if got := half.pacer.Paced(half.want).Classes[1].Interval; !near(float64(got), 2*float64(left.Classes[1].Interval), 1e-6) {
		t.Errorf("half the target: %v of %v", got, left.Classes[1].Interval)
	}
}

// TestSettings: frozen, without feedback, from zero.
func TestSettings(t *testing.T) {
	frozen := newWorld(t, policy.Egress, reserve(10*mega), Options{Frozen: true})
	frozen.again = true
	if st := frozen.run(10); st.Mode != control.Frozen || !near(st.Wire, 10.4558*mega, 1e-4) {
		t.Errorf("frozen: %+v", st)
	}
	open := newWorld(t, policy.Egress, reserve(10*mega), Options{Open: true})
	if st := open.run(10); st.Mode != control.Open || !near(st.Goodput, 9.564*mega, 0.001) {
		t.Errorf("open: %+v", st)
	}
	cold := newWorld(t, policy.Egress, reserve(10*mega), Options{Cold: true, Gains: control.Paper})
	if st := cold.run(2); st.Wire > 2*mega && st.Wire < 0.05*mega {
		t.Errorf("begins cold: %+v", st)
	}
	if st := cold.run(30); !near(st.Goodput, 10*mega, 0.02) {
		t.Errorf("cold: %+v", st)
	}
}

// TestUnmeasured: without a meter the interval stays, and the loop says so.
func TestUnmeasured(t *testing.T) {
	w := newWorld(t, policy.Egress, reserve(10*mega), Options{})
	for i := range 5 {
		w.pacer.Step(dataplane.LinkCounters{At: w.at.Add(time.Duration(i) * time.Second), Classes: map[plan.ClassID]dataplane.Counters{1: {}}}, Measured{})
	}
	if st := w.pacer.Loops()[0].Controller.State(); st.Mode != control.Unmeasured || !near(st.Wire, 10.4558*mega, 1e-4) {
		t.Errorf("%+v", st)
	}
}

// TestBounds: a max of the workload bounds what the loop may ask for.
func TestBounds(t *testing.T) {
	p := reserve(10 * mega)
	p.Max = policy.Amount{Rate: 11 * mega}
	w := newWorld(t, policy.Egress, p, Options{})
	w.want.Classes[1].Reserve = 10.9 * mega // more than the max leaves after headers
	w.pacer.Follow(w.want)
	if st := w.run(20); st.Mode != control.Bounded || st.Wire != 11*mega {
		t.Errorf("%+v", st)
	}
}

// TestParts: of a workload on two links each loop counts its own part.
func TestParts(t *testing.T) {
	w := newWorld(t, policy.Egress, reserve(10*mega), Options{})
	for range 12 {
		w.second()
	}
	r := w.r
	r.Acked += 1_250_000
	w.c.SentBytes += 1_300_000
	w.c.EnqueuedBytes += 1_300_000
	w.pacer.Step(dataplane.LinkCounters{At: w.at.Add(time.Second), Classes: map[plan.ClassID]dataplane.Counters{1: w.c}}, Measured{
		At: w.at.Add(time.Second), Readings: map[plan.ClassID]goodput.Reading{1: r}, Part: func(plan.ClassID) float64 { return 0.25 },
	})
	if st := w.pacer.Loops()[0].Controller.State(); !near(st.Goodput, 2.5*mega, 1e-6) {
		t.Errorf("%+v", st)
	}
}
