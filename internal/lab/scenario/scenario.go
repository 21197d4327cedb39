// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/quota"
	"weir/internal/lab/zones"
)

// Scenario is one file, checked and with every default filled in.
type Scenario struct {
	File      string // as given by the user, for messages
	Name      string
	Link      Link
	Scheduler string
	Beside    []string      // schedulers that the file is run with as well, one after the other
	Settle    time.Duration // left out at the beginning of each phase
	Workloads []Workload    // in the order of the file; a workload's index is its identity
	Groups    []Group       // in the order of the file
	OVS       *Switch       // the workloads are hosts at a switch; nil = containers behind a bridge
	Phases    []Phase
	Expect    []Expectation
	Bars      []Bar // on figures of whole schedulers
	Paper     Published
	Control   Control
	Cost      *CostRun // measure the cost per packet instead of running the phases
	Timing    *Timing
}

// Link is the shared link and what lies behind it.
type Link struct {
	Bandwidth policy.Rate   // what the scheduler may use, wire bits per second
	Line      policy.Rate   // rate of the wire behind the link; 0 = infinitely fast
	Delay     time.Duration // added on the way to the receiver
	Jitter    time.Duration // by which the delay varies, either way
	Loss      float64       // share of packets lost behind the link, 0 to 1
	MTU       int
	ECN       bool   // TCP asks for ECN
	Offload   bool   // segmentation offload (TSO, GSO, GRO)
	Favour    string // as plan.Link has it, for the scheduler fair
	// Ingress turns everything round: traffic comes from the receiver's end to the
	// workloads, and the link is what the host receives by it.
	Ingress bool
	Zones   []zones.Zone // parts of what lies behind the link, in the order of the file
}

// Capacity is what the contract divides: the bandwidth, unless the line behind
// it is the narrower one.
func (l Link) Capacity() policy.Rate {
	if l.Line != 0 {
		return min(l.Bandwidth, l.Line)
	}
	return l.Bandwidth
}

// Policy is what a workload was promised, in bits per second. Peers hold weight,
// min and max as far as they can, and nothing of the rest.
type Policy struct {
	Weight   uint32
	Min, Max policy.Rate // 0 = none
	Reserve  policy.Rate // goodput that a controller holds, payload bits per second; 0 = none

	Discipline discipline.Name // "" = the product's default
	Queues     []policy.Queue
	AQM        discipline.AQM
	Isolation  discipline.Isolation
	Burst      quota.Size
	DSCP       *uint8
	Group      string // "" = none
}

// Asked is the policy as the product is asked for it.
func (p Policy) Asked() policy.Policy {
	return policy.Policy{
		Weight: p.Weight, Min: policy.Amount{Rate: p.Min}, Max: policy.Amount{Rate: p.Max}, Reserve: policy.Amount{Rate: p.Reserve},
		Discipline: p.Discipline, Queues: p.Queues, AQM: p.AQM, DSCP: p.DSCP, Group: p.Group,
		Isolation: p.Isolation, Burst: p.Burst,
	}
}

// Workload is one network namespace with its traffic.
type Workload struct {
	Name    string
	Tap     bool // behind a tap, like a virtual machine
	Policy  Policy
	Zone    string // that its traffic goes to, or comes from; "" = what no zone has
	Queue   string // with OVS: of the port, for what no queue's match names; "" = the rest's
	Traffic []Traffic
}

// Kind of traffic.
type Kind string

// The kinds of traffic that a workload can send.
const (
	TCP   Kind = "tcp"    // iperf3, as fast as it goes
	UDP   Kind = "udp"    // iperf3 -u at a fixed rate
	Ping  Kind = "ping"   // ICMP echo, measures the latency
	TCPRR Kind = "tcp_rr" // netperf's request and response, one at a time
	UDPRR Kind = "udp_rr" // the same by UDP
	// TCPCRR is a connection for each request, as most APIs are used.
	TCPCRR Kind = "tcp_crr"
)

// RR says whether it is netperf's request and response.
func (k Kind) RR() bool { return k == TCPRR || k == UDPRR || k == TCPCRR }

// Traffic is one generator. Start and Stop count from the beginning of the
// phase in which the list that holds it was given; Stop 0 = until the end.
type Traffic struct {
	Kind        Kind
	Name        string // of the entry, in its list
	Start, Stop time.Duration
	Streams     int // tcp, udp: connections or sockets
	Port        int // at the receiver; 0 = chosen by the lab
	Host        int // of the receiver, 1 to 8; 0 is 1
	DSCP        uint8
	Size        int           // bytes: tcp per write, udp and ping payload, netperf request
	Answer      int           // netperf: bytes of the answer; 0 = as many as of the request
	Rate        policy.Rate   // udp: wire bits per second, of all streams together
	Interval    time.Duration // ping
}

// Phase is a part of the timeline that is measured on its own.
type Phase struct {
	For time.Duration
	// What becomes different when the phase begins, and stays so: of workloads, and
	// of groups, whose index is the change's Workload.
	Set, SetGroups []WorkloadChange
}

// WorkloadChange holds the settings that a phase changes for one workload; nil = stays as it is.
type WorkloadChange struct {
	Workload int
	Weight   *uint32
	Min, Max *policy.Rate
	Reserve  *policy.Rate
	Inside   policy.Change // discipline, queues, aqm, dscp, group
	Traffic  *TrafficChange
}

// TrafficChange switches a workload's traffic off or on, or replaces it.
type TrafficChange struct {
	Mode TrafficMode
	List []Traffic // with Replace
}

// TrafficMode says what happens to a workload's traffic.
type TrafficMode int

// What a phase can do to a workload's traffic.
const (
	Off TrafficMode = iota
	On
	Replace
)

// Expectation is a condition on what was measured. Phase 0 = every phase,
// Workload -1 = every workload, or the link where the condition is the link's;
// Scheduler "" = whichever scheduler the file is run with.
type Expectation struct {
	Line      int    // in the file, for messages
	Text      string // the entry as the file has it
	Scheduler string
	Phase     int
	Workload  int
	Queue     string // "" = not about a queue
	Flow      string // name of a traffic entry; "" = not about one
	Check     Check
	Ideal     bool    // the value is the contract's (CheckRate), or what the wire shows (CheckGoodput)
	Value     float64 // bits per second, a share, seconds, or packets
	Within    Margin
}

// Check names the quantity that an expectation checks.
type Check string

// The conditions that an expectation can state.
const (
	CheckRate        Check = "rate"        // equals Value within Within
	CheckBounds      Check = "bounds"      // no workload below its min or above its max by more than Within, as a share of each
	CheckUtilisation Check = "utilisation" // at least Value
	CheckReaction    Check = "reaction"    // at most Value
	CheckSteady      Check = "steady"      // in each short window every rate is within Value of the link of its ideal
	CheckRTT50       Check = "rtt_p50"     // at most Value
	CheckRTT99       Check = "rtt_p99"     // at most Value
	CheckLoss        Check = "loss"        // at most Value
	CheckJitter      Check = "jitter"      // at most Value
	CheckDrops       Check = "drops"       // at most Value
	CheckGoodput     Check = "goodput"     // payload that the programs got: equals Value within Within
	CheckSettle      Check = "settle"      // of the step in the phase: at most Value, seconds
	CheckOvershoot   Check = "overshoot"   // the same, part of the target
	CheckDisturbance Check = "disturbance" // of a reservation that goes on: at most Value, part of it
	CheckRecovery    Check = "recovery"    // from a collapse of a reservation's goodput: at most Value, seconds
)

// Margin is how far a rate may be off: a share of the expected value or
// absolute.
type Margin struct {
	Share float64
	Rate  policy.Rate
}

// Of is the margin around an expected rate, in bits per second.
func (m Margin) Of(expected float64) float64 {
	if m.Rate > 0 {
		return float64(m.Rate)
	}
	return m.Share * expected
}

// Published holds published figures that are shown beside the measured ones.
type Published struct {
	Source string
	// Rates[p][name] is the rate in bits per second of a workload in phase p
	// (from 0); a workload that the paper does not give is missing.
	Rates []map[string]policy.Rate
	Note  string
}

// CostRun asks for the time that one packet takes through each scheduler.
type CostRun struct {
	Packets    int
	Size       int // of the frame, bytes
	Workloads  []int
	Schedulers []string
	Cases      []string // of CostCases
	// Functions are the contenders (fair, fair+sfq) of which the time in each function of the
	// kernel is measured too, in CostVeths and CostInside.
	Functions []string
}

// AllSchedulers returns the schedulers that the file is run with, in order.
func (s *Scenario) AllSchedulers() []string { return append([]string{s.Scheduler}, s.Beside...) }

// Duration of all phases together.
func (s *Scenario) Duration() time.Duration {
	var sum time.Duration
	for _, p := range s.Phases {
		sum += p.For
	}
	return sum
}

// Index of a workload by its name, -1 if there is none.
func (s *Scenario) Index(name string) int {
	for i, w := range s.Workloads {
		if w.Name == name {
			return i
		}
	}
	return -1
}
