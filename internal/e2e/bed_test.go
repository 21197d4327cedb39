// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/dataplane"
	"weir/internal/dataplane/bpf"
	"weir/internal/dataplane/tc"
	"weir/internal/lab/meter"
	"weir/internal/plan"
	"weir/internal/policy"
)

// bed is a host with workloads and a server, see the package's comment.
type bed struct {
	t        testing.TB
	dir      string // the agent's socket, state and configuration
	host     *space
	srv      *space
	boxes    []*space
	nets     []network
	capacity policy.Rate
	receiver *process
	flows    int
}

// network is one uplink with the bridge before it.
type network struct {
	bridge, uplink string
	meter          *meter.Meter
}

// meterLength bounds a test.
const meterLength = 5 * time.Minute

// newBed makes a bed with a number of workloads, each in all of the networks.
func newBed(t testing.TB, workloads, networks int) *bed {
	t.Helper()
	return newNamedBed(t, "", workloads, networks)
}

// newNamedBed makes a bed whose namespaces have names that begin with prefix.
// All beds share one BPF file system, as agents on one machine do.
func newNamedBed(t testing.TB, prefix string, workloads, networks int) *bed {
	t.Helper()
	b := &bed{t: t, dir: filepath.Join("/run/e2e", prefix+"bed"), capacity: policy.Rate(*capacity) * 1e6}
	mountBPFFS(t)
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(b.dir) })
	b.host, b.srv = newSpace(t, prefix+"host"), newSpace(t, prefix+"srv")
	for n := range networks {
		b.nets = append(b.nets, network{bridge: fmt.Sprintf("br%d", n), uplink: fmt.Sprintf("up%d", n)})
		b.host.bridge(b.nets[n].bridge)
		b.plugServer(n)
	}
	for i := range workloads {
		b.addBox(newSpace(t, fmt.Sprintf("%sw%d", prefix, i+1)), i+1)
	}
	for n := range networks {
		b.measure(n, workloads)
	}
	b.receiver = launch(b.srv, "receive")
	b.receiver.read()
	return b
}

// mountBPFFS gives a test a BPF file system in the place that agents use. It
// stays empty if the test before left nothing; what is in it goes.
func mountBPFFS(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/sys/fs/bpf/e2e"); err == nil {
		return // this test's own, of its first bed
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount a BPF file system: %v", err)
	}
	if err := os.Mkdir("/sys/fs/bpf/e2e", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/sys/fs/bpf", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func (b *bed) plugServer(n int) {
	b.t.Helper()
	b.host.plug(b.nets[n].bridge, b.nets[n].uplink, b.srv, fmt.Sprintf("eth%d", n), serverAt(n))
}

// addBox connects workload i to every network, as devices w1, w1n1, ... of the
// host.
func (b *bed) addBox(box *space, i int) {
	b.t.Helper()
	b.boxes = append(b.boxes, box)
	for n := range b.nets {
		b.plugBox(box, n, i)
	}
}

func (b *bed) plugBox(box *space, n, i int) {
	b.t.Helper()
	eth := fmt.Sprintf("eth%d", n)
	b.host.plug(b.nets[n].bridge, portName(n, i), box, eth, workloadAt(n, i))
	box.knows(eth, serverAt(n))
	b.srv.knows(eth, workloadAt(n, i))
}

// portName is the host's end of workload i's device in network n.
func portName(n, i int) string {
	if n == 0 {
		return fmt.Sprintf("w%d", i)
	}
	return fmt.Sprintf("w%dn%d", i, n)
}

// measure begins to count what the server receives in network n.
func (b *bed) measure(n, workloads int) {
	b.t.Helper()
	m, err := meter.New(meter.Config{
		FirstAddress: binary.BigEndian.Uint32(workloadAt(n, 1).ip), Workloads: workloads, Length: meterLength,
	})
	if err != nil {
		b.t.Fatalf("count what arrives: %v", err)
	}
	b.t.Cleanup(m.Close)
	b.nets[n].meter = m
	b.watch(n)
}

// watch has the meter count at the server's present device in network n.
func (b *bed) watch(n int) {
	b.t.Helper()
	index := b.srv.device(fmt.Sprintf("eth%d", n)).Attrs().Index
	if err := b.srv.do(func() error { return b.nets[n].meter.Attach(index) }); err != nil {
		b.t.Fatalf("count what arrives: %v", err)
	}
}

// rates is what the server receives from each workload in network n over the
// next while, in wire Mbit/s.
func (b *bed) rates(n int, window time.Duration) []float64 {
	b.t.Helper()
	m := b.nets[n].meter
	from := m.Align(meter.Now())
	<-time.After(from + window - meter.Now() + 20*time.Millisecond)
	timeline, err := m.Read(from)
	if err != nil {
		b.t.Fatal(err)
	}
	buckets := int(window / (10 * time.Millisecond))
	rates := make([]float64, len(timeline.Bytes))
	for w, bytes := range timeline.Bytes {
		for _, n := range bytes[:buckets] {
			rates[w] += float64(n) * 8 / window.Seconds() / 1e6
		}
	}
	return rates
}

// full is rates at a time at which the senders fill the link. In the virtual
// machine, where nothing else runs, that is always; another machine may not have
// the CPU time for them this very second.
func (b *bed) full(n int, window time.Duration) []float64 {
	b.t.Helper()
	for try := 1; ; try++ {
		rates, total := b.rates(n, window), 0.0
		for _, r := range rates {
			total += r
		}
		if onBPF() || total > 0.985*float64(b.capacity)/1e6 || try == 5 {
			return rates
		}
		b.t.Logf("the senders did not fill the link: %s", inMbit(rates))
	}
}

// warmUp gives TCP time to find its rate, and the tc fallback time to learn who
// wants how much.
func (b *bed) warmUp() {
	b.t.Helper()
	settle := time.Second
	if !onBPF() {
		settle = 3 * time.Second
	}
	<-time.After(settle)
}

// same fails the test if a workload's rate differs from what it should be by
// more than a share of the link's capacity.
func (b *bed) same(what string, got, want []float64, within float64) {
	b.t.Helper()
	link := float64(b.capacity) / 1e6
	worst := 0.0
	for i := range want {
		worst = max(worst, got[i]-want[i], want[i]-got[i])
	}
	b.t.Logf("%-28s %s, off by %.2f %% of the link at most", what+":", inMbit(got), 100*worst/link)
	if worst > within*link {
		b.t.Errorf("%s: rates are %s, should be %s within %.0f %% of %.0f Mbit/s", what, inMbit(got), inMbit(want), 100*within, link)
	}
}

func inMbit(rates []float64) string {
	var words []string
	for _, r := range rates {
		words = append(words, fmt.Sprintf("%.2f", r))
	}
	return strings.Join(words, " / ") + " Mbit/s"
}

// ideal is the contract's division among workloads that send all they can.
func (b *bed) ideal(policies ...policy.Policy) []float64 {
	b.t.Helper()
	var claims []policy.Claim
	for _, p := range policies {
		claim, err := p.Claim(b.capacity)
		if err != nil {
			b.t.Fatal(err)
		}
		claims = append(claims, claim)
	}
	var rates []float64
	for _, share := range policy.Divide(b.capacity, claims).Shares {
		rates = append(rates, share.Bps/1e6)
	}
	return rates
}

// flow is a numbered UDP stream from a workload.
type flow struct {
	id uint64
	*process
}

// udp starts a stream from workload i to the server in network n, without bursts
// that could find a queue full; share is what it offers as a part of the link's
// capacity.
func (b *bed) udp(n, i int, share float64) flow { b.t.Helper(); return b.stream(n, i, share, 40) }

// flood starts a stream that offers more than it can get, also where it shares
// its CPU with others.
func (b *bed) flood(n, i int, share float64) flow { b.t.Helper(); return b.stream(n, i, share, 1000) }

func (b *bed) stream(n, i int, share float64, burst int) flow {
	b.t.Helper()
	b.flows++
	f := flow{id: uint64(b.flows)}
	f.process = launch(b.boxes[i-1], "udp", fmt.Sprintf("%s:%d", serverAt(n).ip, udpPort),
		fmt.Sprint(f.id), fmt.Sprint(uint64(share*float64(b.capacity))), fmt.Sprint(burst))
	return f
}

// tcp starts a stream that sends all it can.
func (b *bed) tcp(n, i int) *process {
	b.t.Helper()
	return launch(b.boxes[i-1], "tcp", fmt.Sprintf("%s:%d", serverAt(n).ip, tcpPort))
}

// settle stops streams and waits for what is on its way. It returns how many
// packets of each were sent, and how many of these have not arrived.
func (b *bed) settle(flows ...flow) (sent, lost []uint64) {
	b.t.Helper()
	for _, f := range flows {
		sent = append(sent, f.stop())
	}
	lost = make([]uint64, len(flows))
	var came uint64
	for quiet := time.Now(); time.Since(quiet) < time.Second; <-time.After(50 * time.Millisecond) {
		total := uint64(0)
		for i, a := range b.arrivalsOf(flows) {
			lost[i] = sent[i] - a.Packets
			total += a.Packets
		}
		if total == sum(sent) {
			break
		}
		if total != came {
			came, quiet = total, time.Now()
		}
	}
	return sent, lost
}

// accounted stops streams and checks that the classes, of one stream each, know
// of every packet: what did not arrive was dropped because its own queue was full.
func (b *bed) accounted(flows []flow, classes ...uint16) {
	b.t.Helper()
	sent, lost := b.settle(flows...)
	end := b.counters(0)
	b.addUp(end)
	for i, number := range classes {
		c := class(end, number)
		full := c.Drops["class_packets"] + c.Drops["class_bytes"] + c.Drops["queue"]
		b.t.Logf("class %d: %d packets offered, %d enqueued, %d arrived, %d found their queue full", number, sent[i], c.EnqueuedPackets, sent[i]-lost[i], full)
		if c.EnqueuedPackets != sent[i] || full != lost[i] {
			b.t.Errorf("class %d: %d packets offered and %d missing, but %d enqueued and %d found their queue full: %+v",
				number, sent[i], lost[i], c.EnqueuedPackets, full, c)
		}
	}
}

func (b *bed) arrivalsOf(flows []flow) []arrival {
	b.t.Helper()
	all := b.receiver.arrivals()
	var list []arrival
	for _, f := range flows {
		list = append(list, all[f.id])
	}
	return list
}

func sum(list []uint64) (total uint64) {
	for _, n := range list {
		total += n
	}
	return total
}

// counters reads what the kernel counted for network n, past the agent.
func (b *bed) counters(n int) dataplane.Snapshot {
	b.t.Helper()
	var snapshot dataplane.Snapshot
	err := b.host.do(func() error {
		backend, err := b.backend(n)
		if err != nil {
			return err
		}
		defer backend.Close()
		if _, err := backend.State(); err != nil {
			return err
		}
		snapshot, err = backend.Counters()
		return err
	})
	if err != nil {
		b.t.Fatalf("read the kernel's counters: %v", err)
	}
	return snapshot
}

func (b *bed) backend(n int) (dataplane.Backend, error) {
	opts := dataplane.Options{StateDir: b.stateDir()}
	if onBPF() {
		return bpf.New(b.nets[n].uplink, opts, slog.New(slog.DiscardHandler))
	}
	return tc.New(b.nets[n].uplink, opts, slog.New(slog.DiscardHandler))
}

// addUp checks that no class has lost a packet without counting it.
func (b *bed) addUp(s dataplane.Snapshot) {
	b.t.Helper()
	for id, c := range s.Classes {
		var drops uint64
		for _, n := range c.Drops {
			drops += n
		}
		if c.EnqueuedPackets != c.SentPackets+drops+c.BacklogPackets {
			b.t.Errorf("class %d: %d packets enqueued, but %d sent, %d dropped and %d waiting",
				id, c.EnqueuedPackets, c.SentPackets, drops, c.BacklogPackets)
		}
	}
}

// drops is how many packets were dropped for one of the reasons; of all, if
// none is given.
func drops(s dataplane.Snapshot, reasons ...string) (total uint64) {
	for _, c := range s.Classes {
		for reason, n := range c.Drops {
			if len(reasons) == 0 || strings.Contains(strings.Join(reasons, " "), reason) {
				total += n
			}
		}
	}
	return total
}

// rootQdisc is the line of tc that names the uplink's root qdisc.
func (b *bed) rootQdisc(n int) string {
	b.t.Helper()
	for line := range strings.Lines(b.host.run("tc qdisc show dev " + b.nets[n].uplink)) {
		if strings.Contains(line, " root ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// await checks until check is content, or the time is over.
func await(t testing.TB, within time.Duration, what string, check func() error) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(begin)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, within, err)
		case <-ticker.C:
		}
	}
}

// class finds the class of a workload by the number that the agent gave it.
func class(s dataplane.Snapshot, number uint16) dataplane.Counters {
	return s.Classes[plan.ClassID(number)]
}
