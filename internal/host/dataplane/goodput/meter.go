// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// queues is how many a class can have; WEIR_GP_QUEUES.
const queues = policy.MaxQueues

// mostIFBs is how many links' ingress a port can tell apart; WEIR_GP_IFBS.
const mostIFBs = 8

// Counts are payload bytes since the class was first watched.
type Counts struct {
	Sent, Again             uint64 // TCP that left the workload: for the first time, once more
	Acked                   uint64 // TCP that the far end acknowledged
	Received, ReceivedAgain uint64 // TCP that came to the workload
	Datagrams               uint64 // UDP and all else that left it
	DatagramsReceived       uint64
}

func (c Counts) plus(d goodputWeirGpCounts) Counts {
	return Counts{
		Sent: c.Sent + d.Sent, Again: c.Again + d.Again, Acked: c.Acked + d.Acked,
		Received: c.Received + d.Received, ReceivedAgain: c.ReceivedAgain + d.ReceivedAgain,
		Datagrams: c.Datagrams + d.Datagrams, DatagramsReceived: c.DatagramsReceived + d.DatagramsReceived,
	}
}

// Plus adds up.
func (c Counts) Plus(d Counts) Counts {
	return c.plus(goodputWeirGpCounts{Sent: d.Sent, Again: d.Again, Acked: d.Acked, Received: d.Received,
		ReceivedAgain: d.ReceivedAgain, Datagrams: d.Datagrams, DatagramsReceived: d.DatagramsReceived})
}

// Delivered is the payload of what the workload sent that arrived, as far as that can be
// known: of datagrams all that left it.
func (c Counts) Delivered() uint64 { return c.Acked + c.Datagrams }

// Came is the payload that came to the workload.
func (c Counts) Came() uint64 { return c.Received + c.DatagramsReceived }

// Reading is what was counted for one class: in all, and by queue.
type Reading struct {
	Counts
	Queues [queues]Counts
}

// Flow is one TCP connection of a watched class, or what goes between two UDP ports.
type Flow struct {
	Protocol      string // tcp or udp
	Local, Remote netip.AddrPort
	Queue         int // of what the workload sent last
	Counts
}

// Meter counts for the classes that it was told to watch. It is made in the network
// namespace of the devices, and its methods are called there.
type Meter struct {
	spec   *ebpf.CollectionSpec
	flows  *ebpf.Map
	totals *ebpf.Map
	in     plan.Carrier
	ifbs   []int
	at     map[plan.Port]*place // by Port.Place
	known  map[plan.ClassID]bool
}

// place is a port with its programs.
type place struct {
	class plan.ClassID
	links []link.Link
}

func (p *place) close() error {
	var failed error
	for _, l := range p.links {
		failed = errors.Join(failed, l.Close())
	}
	return failed
}

// New prepares; nothing is attached before Watch. in says where packets carry
// their queue. The error wraps dataplane.ErrNoSupport
// where the kernel is too old.
func New(in plan.Carrier) (*Meter, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := loadGoodput()
	if err != nil {
		return nil, err
	}
	m := &Meter{spec: spec, in: in, at: map[plan.Port]*place{}, known: map[plan.ClassID]bool{}}
	if m.flows, err = ebpf.NewMap(spec.Maps[goodputMapWeirGpFlows]); err != nil {
		return nil, device.Explain("make the table of flows", err)
	}
	if m.totals, err = ebpf.NewMap(spec.Maps[goodputMapWeirGpTotals]); err != nil {
		m.flows.Close()
		return nil, device.Explain("make the table of goodputs", err)
	}
	return m, nil
}

// Watch makes the meter count at these ports and no others. ifbs are the indexes of
// the IFB devices by which steered ingress comes. It may be called again and again. A
// port that went away meanwhile is no failure.
func (m *Meter) Watch(ports []plan.Port, ifbs []int) error {
	ifbs = slices.Sorted(slices.Values(ifbs))
	if len(ifbs) > mostIFBs {
		ifbs = ifbs[:mostIFBs]
	}
	wanted := map[plan.Port]plan.ClassID{}
	for _, p := range ports {
		wanted[p.Place()] = p.Class
	}
	var failed error
	for at, p := range m.at {
		if class, stays := wanted[at]; !stays || class != p.class || !slices.Equal(ifbs, m.ifbs) {
			failed = errors.Join(failed, p.close())
			delete(m.at, at)
		}
	}
	m.ifbs = ifbs
	failed = errors.Join(failed, m.count(slices.Collect(maps.Values(wanted))))
	for at, class := range wanted {
		if m.at[at] != nil {
			continue
		}
		p, err := m.attach(at, class)
		if errors.Is(err, dataplane.ErrNoDevice) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("measure goodput at %s: %w", cmp.Or(at.Cgroup, fmt.Sprintf("device %d", at.Ifindex)), err))
			continue
		}
		m.at[at] = p
	}
	return failed
}

// Watches says at how many ports the meter counts.
func (m *Meter) Watches() int { return len(m.at) }

// count makes the counters of the classes, and removes those of others.
func (m *Meter) count(classes []plan.ClassID) error {
	for _, class := range classes {
		for q := range queues {
			err := m.totals.Update(uint32(class)*queues+uint32(q), goodputWeirGpCounts{}, ebpf.UpdateNoExist)
			if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("count the goodput of class %d: %w", class, err)
			}
		}
		m.known[class] = true
	}
	for class := range m.known {
		if slices.Contains(classes, class) {
			continue
		}
		for q := range queues {
			if err := m.totals.Delete(uint32(class)*queues + uint32(q)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("forget the goodput of class %d: %w", class, err)
			}
		}
		delete(m.known, class)
	}
	return nil
}

// names of the programs at a port: of what leaves the workload, and what goes into it.
func names(at plan.Port) [2]string {
	if at.Cgroup != "" {
		return [2]string{goodputProgWeirGpCgFrom, goodputProgWeirGpCgTo}
	}
	return [2]string{goodputProgWeirGpFrom, goodputProgWeirGpTo}
}

// pair are the two programs of a port. To load the whole collection would map their
// constants into memory, which holds them in the kernel until the garbage collector
// comes by.
type pair struct {
	From *ebpf.Program `ebpf:"from"`
	To   *ebpf.Program `ebpf:"to"`
}

// close gives them back; what hangs somewhere stays.
func (p pair) close() {
	p.From.Close()
	p.To.Close()
}

// load loads both programs of a port.
func (m *Meter) load(at plan.Port, class plan.ClassID) (loaded pair, err error) {
	here := goodputWeirGpPlace{Class: uint32(class), Port: uint32(at.Ifindex), LinkHeader: 14}
	here.In.More, here.In.Others, here.In.Classes, here.In.Shift, here.In.QueueShift = m.in.Where()
	if at.Cgroup != "" {
		here.LinkHeader = 0
	}
	for i, ifb := range m.ifbs {
		here.Ifbs[i] = uint32(ifb)
	}
	spec, names := m.spec.Copy(), names(at)
	if err := spec.Variables[goodputVarWeirGp].Set(here); err != nil {
		return loaded, err
	}
	spec.Programs["from"], spec.Programs["to"] = spec.Programs[names[0]], spec.Programs[names[1]]
	err = spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		goodputMapWeirGpFlows: m.flows, goodputMapWeirGpTotals: m.totals,
	}})
	return loaded, device.Explain("load the goodput programs", err)
}

// attach puts both programs at a port.
func (m *Meter) attach(at plan.Port, class plan.ClassID) (*place, error) {
	loaded, err := m.load(at, class)
	if err != nil {
		return nil, err
	}
	defer loaded.close()
	p := &place{class: class}
	for i, program := range []*ebpf.Program{loaded.From, loaded.To} {
		l, err := hang(at, program, i == 0)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.links = append(p.links, l)
	}
	return p, nil
}

// hang attaches one program, behind those that are there: the mark is to be read.
func hang(at plan.Port, program *ebpf.Program, from bool) (l link.Link, err error) {
	if at.Cgroup != "" {
		way := ebpf.AttachCGroupInetIngress
		if from {
			way = ebpf.AttachCGroupInetEgress
		}
		l, err = link.AttachCgroup(link.CgroupOptions{Path: at.Cgroup, Attach: way, Program: program})
	} else {
		way := ebpf.AttachTCXEgress
		if from {
			way = ebpf.AttachTCXIngress
		}
		l, err = link.AttachTCX(link.TCXOptions{Interface: at.Ifindex, Program: program, Attach: way, Anchor: link.Tail()})
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV):
		return nil, fmt.Errorf("%w: %w", dataplane.ErrNoDevice, err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return nil, fmt.Errorf("%w: tcx is there from Linux 6.6 on", dataplane.ErrNoSupport)
	}
	return l, err
}

// Read is what was counted so far for the classes that are watched.
func (m *Meter) Read() (map[plan.ClassID]Reading, error) {
	all := map[plan.ClassID]Reading{}
	for class := range m.known {
		var r Reading
		for q := range queues {
			var c goodputWeirGpCounts
			if err := m.totals.Lookup(uint32(class)*queues+uint32(q), &c); err != nil {
				return nil, fmt.Errorf("read the goodput of class %d: %w", class, err)
			}
			r.Counts = r.Counts.plus(c)
			r.Queues[q] = Counts{}.plus(c)
		}
		all[class] = r
	}
	return all, nil
}

// Flows are those of a class that were seen last, the busiest first. There is room for
// 16,384 of all classes; the one that was idle for longest gives way.
func (m *Meter) Flows(class plan.ClassID) ([]Flow, error) {
	var list []Flow
	var key goodputWeirGpKey
	var f goodputWeirGpFlow
	entries := m.flows.Iterate()
	for entries.Next(&key, &f) {
		if f.Class == uint32(class) {
			protocol := "tcp"
			if key.Protocol == unix.IPPROTO_UDP {
				protocol = "udp"
			}
			list = append(list, Flow{
				Protocol: protocol, Local: address(key.Local, key.LocalPort), Remote: address(key.Remote, key.RemotePort),
				Queue: int(f.Queue), Counts: Counts{}.plus(f.Counts),
			})
		}
	}
	slices.SortFunc(list, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Delivered()+b.Came(), a.Delivered()+a.Came()), a.Local.Compare(b.Local), a.Remote.Compare(b.Remote))
	})
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read the table of flows: %w", err)
	}
	return list, nil
}

// address reads words in network order; of IPv4 there is only the first.
func address(words [4]uint32, port uint16) netip.AddrPort {
	raw := *(*[16]byte)(unsafe.Pointer(&words))
	p := *(*[2]byte)(unsafe.Pointer(&port))
	ip := netip.AddrFrom16(raw)
	if words[1]|words[2]|words[3] == 0 {
		ip = netip.AddrFrom4([4]byte(raw[:4]))
	}
	return netip.AddrPortFrom(ip, uint16(p[0])<<8|uint16(p[1]))
}

// Close stops counting.
func (m *Meter) Close() error {
	failed := errors.Join(m.flows.Close(), m.totals.Close())
	for at, p := range m.at {
		failed = errors.Join(failed, p.close())
		delete(m.at, at)
	}
	return failed
}
