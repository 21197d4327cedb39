// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

// patience is how long a server may take until it listens, and serverTick how often
// a server is looked at.
const (
	patience   = 10 * time.Second
	serverTick = 10 * time.Millisecond
)

// Generators are the programs of one scenario.
type Generators struct {
	net     *topology.Net
	flows   []scenario.Flow
	servers map[endpoint]*process
	clients []*process // per flow, nil until started
	began   []time.Duration
	zero    time.Time // wall clock when the scenario began
	ingress bool      // traffic comes to the workloads
}

type endpoint struct {
	workload int
	address  netip.Addr
	port     int
}

// process is a running program with what it prints.
type process struct {
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // closed when it has ended
}

// output is what a program has printed so far. It may be read while it grows.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

func (o *output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.text)
}

func (o *output) String() string { return string(o.Bytes()) }

func start(ns *topology.NS, cmd *exec.Cmd) (*process, error) {
	p, err := begin(cmd, ns.Start)
	if err != nil {
		return nil, fmt.Errorf("start %s in %s: %w", cmd.Path, ns.Name, err)
	}
	return p, nil
}

func begin(cmd *exec.Cmd, start func(*exec.Cmd) error) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if err := start(cmd); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // how it ended is judged by what it printed
		close(p.done)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(s) // it may have ended this very moment
	}
}

// wait for the end until the deadline, then force it.
func (p *process) wait(deadline <-chan time.Time) (forced bool) {
	select {
	case <-p.done:
		return false
	case <-deadline:
	}
	select {
	case <-p.done: // both at once: it was not forced
		return false
	default:
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	return true
}

// awaitDocuments waits until an iperf3 has printed n whole documents, has ended, or
// the deadline. A server prints when its client has gone, and one that is told to
// end while it prints begins to print again in the middle (iperf3 3.18).
func (p *process) awaitDocuments(n int, deadline <-chan time.Time) {
	tick := time.NewTicker(serverTick)
	defer tick.Stop()
	for {
		if list, _ := parseIperf(p.out.Bytes()); len(list) >= n {
			return
		}
		select {
		case <-tick.C:
		case <-p.done:
			return
		case <-deadline:
			return
		}
	}
}

// Prepare starts the servers of all flows and waits until they listen.
func Prepare(ctx context.Context, net *topology.Net, flows []scenario.Flow) (*Generators, error) {
	g := &Generators{
		net: net, flows: flows, servers: map[endpoint]*process{},
		clients: make([]*process, len(flows)), began: make([]time.Duration, len(flows)),
		ingress: len(flows) > 0 && flows[0].Ingress,
	}
	for _, f := range flows {
		at := receiver(f)
		cmd := server(f.Kind, at.address.String(), at.port)
		if cmd == nil || g.servers[at] != nil {
			continue
		}
		p, err := start(g.receives(at.workload), cmd)
		if err != nil {
			return nil, err
		}
		g.servers[at] = p
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for at, p := range g.servers {
		if err := g.awaitListener(ctx, at, p); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// receiver returns the endpoint at which the server of a flow listens.
func receiver(f scenario.Flow) endpoint {
	_, to := f.Ends()
	if f.Kind.RR() {
		return endpoint{f.Workload, to, scenario.NetserverPort}
	}
	return endpoint{f.Workload, to, f.Listen}
}

// receives is where traffic of a workload goes to, sends where it comes from.
func (g *Generators) receives(workload int) *topology.NS {
	if g.ingress {
		return g.net.Workloads[workload]
	}
	return g.net.Server
}

func (g *Generators) sends(workload int) *topology.NS {
	if g.ingress {
		return g.net.Server
	}
	return g.net.Workloads[workload]
}

func (g *Generators) awaitListener(ctx context.Context, at endpoint, p *process) error {
	tick := time.NewTicker(serverTick)
	defer tick.Stop()
	for {
		up, err := listens(g.receives(at.workload), at)
		if err != nil {
			return err
		}
		if up {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended at once: %s", p.cmd, strings.TrimSpace(p.err.String()+p.out.String()))
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen within %v", p.cmd, patience)
		}
	}
}

// listens looks into the kernel's list of sockets; connecting would use up the
// server's one test.
func listens(ns *topology.NS, at endpoint) (up bool, err error) {
	a := at.address.As4()
	want := fmt.Sprintf(" %02X%02X%02X%02X:%04X 00000000:0000 0A ", a[3], a[2], a[1], a[0], at.port)
	err = ns.Do(func() error {
		table, err := os.ReadFile("/proc/thread-self/net/tcp")
		up = strings.Contains(string(table), want)
		return err
	})
	return up, err
}

// Begin says when the scenario begins by the wall clock, which ping's
// timestamps are in.
func (g *Generators) Begin(zero time.Time) { g.zero = zero }

// Start starts flow i's client; since is the time since the scenario began.
func (g *Generators) Start(i int, since time.Duration) error {
	f := g.flows[i]
	p, err := start(g.sends(f.Workload), client(f))
	if err != nil {
		return err
	}
	if f.Kind == scenario.UDP {
		go widen(p, f.Streams)
	}
	g.clients[i], g.began[i] = p, since
	return nil
}

// Stop tells flow i's client to end, if it does not do so by itself.
func (g *Generators) Stop(i int) {
	if p := g.clients[i]; p != nil && interrupts(g.flows[i]) {
		p.signal(syscall.SIGINT)
	}
}

// Collect waits for the clients to end, which may take them the grace to
// exchange their accounts over a link that was full a moment ago, gives the servers
// the same to print theirs, ends them, and reads what all of them printed.
func (g *Generators) Collect(grace time.Duration) []FlowReport {
	deadline := after(grace)
	forced := make([]bool, len(g.clients))
	var all sync.WaitGroup
	for i, p := range g.clients {
		if p != nil {
			all.Go(func() { forced[i] = p.wait(deadline) })
		}
	}
	all.Wait()
	deadline = after(grace)
	for at, n := range g.tests() {
		g.servers[at].awaitDocuments(n, deadline)
	}
	deadline = after(grace)
	for _, p := range g.servers {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range g.servers {
		p.wait(deadline)
	}
	served := map[endpoint]int{} // tests read so far of each server's output
	var reports []FlowReport
	for i, p := range g.clients {
		if p == nil {
			continue
		}
		r := g.read(i, p, served)
		if forced[i] && r.Problem == "" {
			r.Problem = fmt.Sprintf("%s did not end by itself", packages[g.flows[i].Kind].program)
		}
		reports = append(reports, r)
	}
	return reports
}

// tests are how many clients each iperf3 server had.
func (g *Generators) tests() map[endpoint]int {
	list := map[endpoint]int{}
	for i, f := range g.flows {
		if g.clients[i] != nil && (f.Kind == scenario.TCP || f.Kind == scenario.UDP) {
			list[receiver(f)]++
		}
	}
	return list
}

// after returns a channel that all callers can wait on, closed after d.
func after(d time.Duration) <-chan time.Time {
	c := make(chan time.Time)
	time.AfterFunc(d, func() { close(c) })
	return c
}

func (g *Generators) read(i int, p *process, served map[endpoint]int) FlowReport {
	f := g.flows[i]
	r := FlowReport{Flow: i, Began: g.began[i]}
	switch f.Kind {
	case scenario.Ping:
		if r.Pings = parsePing(p.out.String(), g.zero); len(r.Pings) == 0 {
			r.Problem = "ping got no answer: " + lastLine(p.out.String()+p.err.String())
		}
	case scenario.TCPRR, scenario.UDPRR, scenario.TCPCRR:
		rr, err := parseNetperf(p.out.String())
		if err != nil {
			r.Problem = strings.TrimSpace(err.Error() + " " + p.err.String())
		}
		r.RR = rr
	default:
		at := receiver(f)
		nth := served[at]
		served[at]++
		r.Intervals, r.Problem = readIperf(r.Began, p, g.servers[at], nth)
	}
	return r
}

// readIperf joins a client's document with the nth of its server. An iperf3 that
// was interrupted says so in its error; that is no problem.
func readIperf(began time.Duration, client, server *process, nth int) ([]IperfInterval, string) {
	mine, err := parseIperf(client.out.Bytes())
	if err != nil || len(mine) == 0 {
		return nil, fmt.Sprintf("the client's report is missing: %v %s", err, strings.TrimSpace(client.err.String()))
	}
	theirs, _ := parseIperf(server.out.Bytes()) // cut off where it was killed: the complete part counts
	problem := mine[0].Error
	if strings.HasPrefix(problem, "interrupt") {
		problem = ""
	}
	if nth >= len(theirs) {
		return nil, strings.TrimSpace("the server's report is missing " + problem)
	}
	return merge(began, mine[0], theirs[nth]), problem
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
