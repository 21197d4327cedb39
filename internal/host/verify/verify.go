// SPDX-License-Identifier: Apache-2.0

// Package verify proves which traffic of workloads a host's links hold: it sends a little by every
// path out of a workload's namespace, looks for it at the port and at the link, and reads how much
// of it the workload's class counted. What comes in is proved by the answers to that, which are
// made from what left by the link and injected there.
//
//	lines, err := verify.Run(ctx, agent, verify.Options{Name: "web"})
//	for _, l := range lines { fmt.Println(l.Path, l.Direction, l.Result) }
//	    IPv4 UDP  egress   ok
//	    IPv4 UDP  ingress  not steered
//
// A count that is larger than what was sent proves nothing more: the workload's own traffic is in
// it. Another path's is not, as paths are tried one after the other.
//
// What it does not do: change anything, or see through what a tunnel encrypts.
package verify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weir/internal/api"
	"weir/internal/host/dataplane/inject"
)

// Options select what is proved.
type Options struct {
	Name string // the workload, "" = all
	// Peer is where packets are sent, the zero value = addresses for documentation. Answers of
	// a peer (weir verify --answer there) prove that packets arrive, and what comes in.
	Peer netip.AddrPort
}

// The results of a path.
const (
	OK         = "ok"
	NotSteered = "not steered"
	NotProved  = "not proved"
	NoPath     = "no path" // the workload has no address or route for it, or what it sends meets no link
)

// Line is one path of one workload in one direction.
type Line struct {
	Workload  string `json:"workload"`
	Interface string `json:"interface" doc:"inside of the workload"`
	Path      string `json:"path" doc:"IPv4 UDP, IPv6 TCP, ..."`
	Direction string `json:"direction" enum:"egress,ingress"`
	Sent      int    `json:"sent" doc:"packets: out of the workload, or injected at the link"`
	Port      int    `json:"port" doc:"packets seen at the workload's devices on the host"`
	Link      int    `json:"link" doc:"packets seen at the links; of ingress those that the workload got"`
	Counted   uint64 `json:"counted" doc:"packets that the workload's class counted meanwhile, at most what was sent"`
	Answered  int    `json:"answered,omitempty" doc:"packets that the peer answered"`
	Result    string `json:"result" enum:"ok,not steered,not proved,no path"`
	Why       string `json:"why,omitempty"`
}

// Agent is what is asked of the agent.
type Agent interface {
	Status(ctx context.Context) (api.Status, error)
	Workloads(ctx context.Context) ([]api.Workload, error)
	Workload(ctx context.Context, name string) (api.Workload, error)
}

// reserved are addresses for documentation (RFC 5737, RFC 3849): routers drop what is sent there.
var reserved = []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:ffff::1")}

// Run proves the paths of workloads, one after the other.
func Run(ctx context.Context, agent Agent, o Options) ([]Line, error) {
	status, err := agent.Status(ctx)
	if err != nil {
		return nil, err
	}
	all, err := agent.Workloads(ctx)
	if err != nil {
		return nil, err
	}
	workloads := all
	if o.Name != "" {
		one, err := agent.Workload(ctx, o.Name)
		if err != nil {
			return nil, err
		}
		workloads = []api.Workload{one}
	}
	h, err := newHost(status)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, w := range workloads {
		if o.Name == "" && len(w.Devices) == 0 {
			continue
		}
		t := trial{host: h, agent: agent, workload: w, options: o}
		if t.near, err = h.neighbours(all, w.Name); err != nil {
			return lines, err
		}
		of, err := t.run(ctx)
		if err != nil {
			return lines, err
		}
		lines = append(lines, of...)
	}
	return lines, nil
}

// trial is the proof of one workload.
type trial struct {
	*host
	agent    Agent
	workload api.Workload
	options  Options
	near     []netip.Addr // of other workloads of the host, one of each family
	back     []sniffer    // at its devices: what goes into it while a path is tried
}

func (t trial) run(ctx context.Context) (lines []Line, err error) {
	ends, err := t.inside(t.workload.Devices)
	if err != nil {
		return nil, err
	}
	if len(ends) == 0 {
		return []Line{{Workload: t.workload.Name, Result: NotProved,
			Why: "its inside cannot be entered from here: it has no network namespace that a veth or netkit pair leads into"}}, nil
	}
	for _, e := range ends {
		for _, to := range t.targets() {
			for _, tcp := range []bool{false, true} {
				of, err := t.path(ctx, e, to, tcp)
				if err != nil {
					return lines, err
				}
				lines = append(lines, of...)
			}
		}
		for _, a := range t.near {
			l, err := t.local(ctx, e, netip.AddrPortFrom(a, anyPort))
			if err != nil {
				return lines, err
			}
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// anyPort is the port to which verify sends what no program is to answer.
const anyPort = 40009

// targets returns where packets are sent.
func (t trial) targets() (list []netip.AddrPort) {
	if t.options.Peer.IsValid() {
		return []netip.AddrPort{t.options.Peer}
	}
	for _, a := range reserved {
		list = append(list, netip.AddrPortFrom(a, anyPort))
	}
	return list
}

func pathName(to netip.AddrPort, tcp bool) string {
	name := "IPv4"
	if to.Addr().Is6() {
		name = "IPv6"
	}
	if tcp {
		return name + " TCP"
	}
	return name + " UDP"
}

// path proves one path in both directions.
func (t trial) path(ctx context.Context, e end, to netip.AddrPort, tcp bool) ([]Line, error) {
	p, err := open(e.netns, e.name, to, tcp)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if t.back, err = t.ports(t.workload.Devices, true); err != nil {
		return nil, err
	}
	defer closeAll(t.back)
	up := Line{Workload: t.workload.Name, Interface: e.name, Path: pathName(to, tcp), Direction: "egress"}
	before, left, by, err := t.sends(ctx, p, &up)
	if err != nil || up.Result == NoPath {
		return []Line{up}, err
	}
	t.judgeUp(&up, by.Device)
	if up.Result == NoPath || !t.ingress {
		return []Line{up}, nil
	}
	down, err := t.down(ctx, p, up, before, left, by)
	return []Line{up, down}, err
}

// local proves what goes to another workload of the host: it leaves by no link, and counts at none.
func (t trial) local(ctx context.Context, e end, to netip.AddrPort) (Line, error) {
	l := Line{Workload: t.workload.Name, Interface: e.name, Path: pathName(to, false) + ", same node", Direction: "egress"}
	p, err := open(e.netns, e.name, to, false)
	if err != nil {
		return l, err
	}
	defer p.close()
	_, _, by, err := t.sends(ctx, p, &l)
	switch {
	case err != nil || l.Result == NoPath:
	case l.Link > 0:
		t.judgeUp(&l, by.Device)
	case int(l.Counted) > l.Sent/10:
		l.Result, l.Why = NotSteered, fmt.Sprintf("its class counted %d packets that left by no link", l.Counted)
	case l.Port == 0:
		l.Result, l.Why = NotProved, "it was seen at none of its devices on the host"
	default:
		l.Result = OK
	}
	return l, err
}

// sends sends a probe and fills in where it was seen. It returns what the class had counted before,
// and the frames that left by a link.
func (t trial) sends(ctx context.Context, p *probe, up *Line) (before counts, left [][]byte, by api.LinkStatus, err error) {
	ports, links, err := t.sniffers(t.workload.Devices)
	defer closeAll(ports, links)
	if err != nil {
		return before, nil, by, err
	}
	if before, err = t.counts(ctx); err != nil {
		return before, nil, by, err
	}
	if err := p.send(); errors.Is(err, errNoRoute) {
		up.Result, up.Why = NoPath, "it has no route there by this interface"
		return before, nil, by, nil
	} else if err != nil {
		return before, nil, by, fmt.Errorf("send from %s by %s: %w", up.Workload, up.Interface, err)
	}
	after, err := t.settle(ctx, func(now counts) bool { return now.up-before.up >= uint64(p.sent) })
	if err != nil {
		return before, nil, by, err
	}
	match := func(frame []byte) bool { return toward(frame, p.to) }
	for i, s := range links {
		if frames := s.frames(match); len(frames) > len(left) {
			left, by = frames, t.links[i]
		}
	}
	for _, s := range ports {
		up.Port += len(s.frames(match))
	}
	up.Sent, up.Link, up.Counted = p.sent, len(left), min(after.up-before.up, uint64(p.sent))
	if t.options.Peer.IsValid() {
		up.Answered = p.got()
	}
	return before, left, by, nil
}

// judgeUp concludes from what was seen of what a workload sent.
func (t trial) judgeUp(l *Line, link string) {
	missed := min(l.Link, l.Sent) - int(l.Counted) // a peer that takes a connection has more packets sent
	switch past := t.past("egress"); {
	case l.Link > 0 && missed > l.Sent/10:
		l.Result, l.Why = NotSteered, fmt.Sprintf("%d packets left by %s, and its class counted %d", l.Link, link, l.Counted)
	case l.Counted >= uint64(l.Sent*9/10) && l.Sent > 0:
		l.Result = OK
	case past != "":
		l.Result, l.Why = NotSteered, past
	case l.Link == 0:
		l.Result, l.Why = NoPath, "what it sends there leaves by no link, or nothing answered when its address was asked for"
	default:
		l.Result, l.Why = NotProved, fmt.Sprintf("%d of %d packets left by %s", l.Link, l.Sent, link)
	}
}

// down proves what comes in, by the answers of a peer or by those that are injected.
func (t trial) down(ctx context.Context, p *probe, up Line, before counts, left [][]byte, by api.LinkStatus) (Line, error) {
	l := Line{Workload: up.Workload, Interface: up.Interface, Path: up.Path, Direction: "ingress"}
	if up.Answered > 0 {
		l.Sent, l.Link = up.Answered, up.Answered
		for _, s := range t.back {
			l.Port += len(s.frames(func(f []byte) bool { return from(f, p.to) }))
		}
		now, err := t.settle(ctx, func(now counts) bool { return now.down-before.down >= uint64(l.Sent) })
		if err != nil {
			return l, err
		}
		l.Counted = min(now.down-before.down, uint64(l.Sent))
		t.judgeDown(&l)
		return l, nil
	}
	var frames [][]byte
	for _, f := range left {
		if a := answer(f); a != nil {
			frames = append(frames, a)
		}
	}
	if past := t.past("ingress"); len(left) == 0 && past != "" {
		l.Result, l.Why = NotSteered, past
		return l, nil
	}
	in, err := inject.Open(by.Device)
	if err != nil {
		l.Result, l.Why = NotProved, "name a peer: "+err.Error()
		return l, nil //nolint:nilerr // the line has it
	}
	defer in.Close()
	if len(frames) == 0 {
		l.Result, l.Why = NotProved, "name a peer: what left by the link, if anything, cannot be answered here, as in a tunnel"
		return l, nil
	}
	ports, err := t.ports(t.workload.Devices, true)
	defer closeAll(ports)
	if err != nil {
		return l, err
	}
	if before, err = t.counts(ctx); err != nil {
		return l, err
	}
	for _, f := range frames {
		if in.Send(f) == nil {
			l.Sent++
		}
		time.Sleep(between)
	}
	now, err := t.settle(ctx, func(now counts) bool { return now.down-before.down >= uint64(l.Sent) })
	if err != nil {
		return l, err
	}
	l.Link, l.Counted = p.got(), min(now.down-before.down, uint64(l.Sent))
	for _, s := range ports {
		l.Port += len(s.frames(func(f []byte) bool { return from(f, p.to) }))
	}
	t.judgeDown(&l)
	return l, nil
}

// judgeDown concludes from what a workload got.
func (t trial) judgeDown(l *Line) {
	switch past := t.past("ingress"); {
	case l.Link > 0 && l.Link-int(l.Counted) > l.Sent/10:
		l.Result, l.Why = NotSteered, fmt.Sprintf("%d packets came in by the link, and its class counted %d", l.Link, l.Counted)
	case l.Link > 0:
		l.Result = OK
	case past != "":
		l.Result, l.Why = NotSteered, past
	default:
		l.Result, l.Why = NotProved, "what was injected at the link did not reach it: name a peer"
	}
}

// past returns what the agent says is not steered in a direction.
func (t trial) past(direction string) string {
	for _, f := range t.workload.NotSteered {
		if f.Part == "" || f.Part == direction {
			return f.Reason + "; " + f.Remedy
		}
	}
	return ""
}

// counts are the packets that a workload's class has sent, by direction.
type counts struct{ up, down uint64 }

func (t trial) counts(ctx context.Context) (c counts, err error) {
	time.Sleep(fresh) // the agent reads counters once a second
	return t.read(ctx)
}

// fresh is how old the agent's counters may be.
const fresh = 1100 * time.Millisecond

func (t trial) read(ctx context.Context) (c counts, err error) {
	w, err := t.agent.Workload(ctx, t.workload.Name)
	for _, l := range w.Links {
		if l.Direction == "ingress" {
			c.down += l.SentPackets
		} else {
			c.up += l.SentPackets
		}
	}
	return c, err
}

// settle returns the counters when they are as they should be, or have had the time for it.
func (t trial) settle(ctx context.Context, done func(counts) bool) (c counts, err error) {
	for begin := time.Now(); time.Since(begin) < 2*fresh; time.Sleep(100 * time.Millisecond) {
		if c, err = t.read(ctx); err != nil || done(c) {
			return c, err
		}
	}
	return c, nil
}
