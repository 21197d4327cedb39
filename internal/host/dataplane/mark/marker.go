// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/answers"
	"weir/internal/host/dataplane/mark/bypass"
	"weir/internal/host/dataplane/mark/chain"
)

// Marker attaches and detaches marking programs in the network namespace in
// which it was made. Its methods may be called from several goroutines, but the
// kernel looks for devices in the namespace of the calling thread.
type Marker struct {
	mu      sync.Mutex
	conn    *device.Conn
	opts    dataplane.Options
	carrier plan.Carrier
	notes   answers.Notes
	tcx     bool // this kernel has it
	log     *slog.Logger

	identified map[ebpf.ProgramID]identity // by identify
	names      chain.Names
	found      chain.Known[identity] // by watched
	sealed     map[sealedPlace]bool  // where sealer.set has put its program
	unsealed   bool                  // there is a place more, by the last sealer.missing
	paired     bool                  // pairs.ready has been there
	splits     splitting             // by the last splitter.ready
	whole      error                 // why it could not have packets split
}

// hook is a place in a device's path, and the program with rules for it.
type hook struct {
	attach  ebpf.AttachType
	parent  uint32 // of cls_bpf filters
	folder  string // of pins
	program string
	handle  uint32 // of cls_bpf filters, beyond filterHandle
}

var (
	// What comes in by a port.
	ingress = hook{ebpf.AttachTCXIngress, device.ClsactIngress, "ports", classifyProgWeirRulesPort, 0}
	// What leaves by the link, before its qdisc.
	egress = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "egress", classifyProgWeirRulesLink, 0}
	// What leaves by a device above the link, which may be a link itself.
	above = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "seals", classifyProgWeirRulesSeal, 1}
	// What goes into an IFB, before its qdisc.
	guard = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "egress", classifyProgWeirRulesIfb, 0}
	// What goes into a workload by a port, with Options.Inward that has no pair.
	inward = hook{ebpf.AttachNone, device.ClsactEgress, "", classifyProgWeirRulesIn, 0}
	// What goes into a pair, before its qdisc, and what comes out of it.
	gate = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "egress", classifyProgWeirRulesGate, 0}
	back = hook{ebpf.AttachTCXIngress, device.ClsactIngress, "backs", classifyProgWeirRulesBack, 0}
)

// bypass is what refuses to workloads without a port to send past the qdisc.
func (m *Marker) bypass() bypass.Refusals { return bypass.Refusals{Conn: m.conn, Opts: m.opts} }

// port is the hook at ports.
func (m *Marker) port() hook {
	switch {
	case m.opts.Inward == nil:
		return ingress
	case m.opts.Inward.Back == 0:
		return inward
	}
	return taking(m.opts.Inward.IFB)
}

// attachment is one way of attaching to a hook.
type attachment interface {
	attach(ifindex int, name string, want program) error
	detach(ifindex int) error
	// read returns what marks there; errNotOurs if nothing of Weir's does, preceded if another
	// owner's program runs before it.
	read(ifindex int) (identity, error)
	list() ([]plan.Port, error)
}

// New prepares for marking. The error wraps dataplane.ErrPrivilege if the
// process may not do it.
func New(opts dataplane.Options, log *slog.Logger) (*Marker, error) {
	carrier := opts.Carrier()
	if carrier.Mask != 0 {
		if err := carrier.Mask.Check(); err != nil {
			return nil, err
		}
	}
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	return &Marker{conn: conn, opts: opts, carrier: carrier, notes: answers.Notes{Conn: conn, Opts: opts}, tcx: haveTCX(), names: chain.Names{}, found: chain.Known[identity]{}, log: log}, nil
}

// at is how this kernel attaches to a hook.
func (m *Marker) at(h hook) attachment {
	switch h {
	case inward:
		return redirect{m}
	case innerLo, innerNote:
		return inner{m, h}
	}
	if m.tcx {
		return tcx{m, h}
	}
	return clsact{m, h}
}

// Attach makes the packets of a port carry its class and the queue that the
// marking's rules say, and rewrites their DSCP if it says so. A port is a device,
// of which it is what comes in, or a cgroup. Attach may be called again with the
// same or another class and marking, and replaces the former in one step. The
// error wraps dataplane.ErrNoDevice if the device or the cgroup is gone.
func (m *Marker) Attach(port plan.Port, marking Marking) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if port.Cgroup != "" {
		if m.opts.Inward != nil {
			return nil // its packets go in by no device of its own
		}
		return m.attachCgroup(port, marking)
	}
	if err := (pairs{m}).ready(); err != nil {
		return err
	}
	return m.attach(m.port(), port.Ifindex, port.Device, port.Class, marking, func(*program) {})
}

// AttachLink puts the program to a link that gives packets of local sockets the class
// of their cgroup and the queue by the rules of that class, and does for class 0 (the host's own
// packets, and what Open vSwitch forwards) what Attach does for ports. It writes the DSCP of
// cgroups' classes, too. Cgroups of the state that are gone are left out. Pins of links that are
// gone are removed.
//
// What is too long for the link's capacity is split (split.go), devices above the link are sealed
// (seal.go), and an IFB refuses what sockets send to it.
func (m *Marker) AttachLink(dev device.Device, state plan.State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opts.IFB() {
		return errors.Join(pairs{m}.attach(dev), m.prunePins())
	}
	host, _ := state.Class(0)
	sockets, err := m.Sockets(state)
	if err = errors.Join(err, m.bypass().Stand(), m.notes.Stand()); err != nil {
		return err
	}
	if err := (sealer{m}).set(dev, state, sockets); err != nil {
		return err
	}
	splits := splitter{m}.ready(state)
	err = m.attach(egress, dev.Index, dev.Name, 0, MarkingOf(host), func(p *program) {
		p.serveLate(lateOf(state))
		p.reown(sockets)
		p.split(splits)
	})
	if err != nil {
		return err
	}
	return m.prunePins()
}

// AttachLinkRules is AttachLink for a link whose qdisc checks local sockets itself, with
// Sockets. The link gets the program only if class 0 or the class of a cgroup has rules or a
// DSCP, or if another owner has a program there, which may end the chain and with it the seal
// (bpf/marking/seal.h). Otherwise it gets a shorter one if packets may be too long for it, or none.
func (m *Marker) AttachLinkRules(dev device.Device, state plan.State) error {
	m.mu.Lock()
	wanted, err := tcx{m, egress}.wanted(dev, state)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if wanted {
		return m.AttachLink(dev, state)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sockets, err := m.Sockets(state)
	if err != nil {
		return err
	}
	err = splitter{m}.set(dev, state, sockets)
	return errors.Join(err, m.bypass().Stand(), m.notes.Stand(), (sealer{m}).set(dev, state, sockets), m.prunePins())
}

// wanted reports whether a link whose qdisc checks local sockets itself gets the program.
func (t tcx) wanted(dev device.Device, state plan.State) (bool, error) {
	if linkHasRules(state) || t.opts.IFB() || !t.tcx {
		return linkHasRules(state) || t.opts.IFB(), nil
	}
	return t.crowded(dev.Index)
}

// linkHasRules says whether packets at the link are told apart, or their DSCP written.
func linkHasRules(state plan.State) bool {
	host, _ := state.Class(0)
	return !MarkingOf(host).empty() || len(lateOf(state)) > 0
}

// prunePins removes the pins of links that are gone.
func (m *Marker) prunePins() error {
	_, err := m.at(egress).list()
	return errors.Join(err, pairs{m}.prune(), redirect{m}.prune())
}

// DetachLink takes the program of AttachLink off. It is no error if none is there.
func (m *Marker) DetachLink(dev device.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.detach(egress, dev.Index)
	if second := (pairs{m}).second(); second != 0 {
		err = errors.Join(err, m.detach(back, second))
	}
	return err
}

func (m *Marker) attach(h hook, ifindex int, name string, class plan.ClassID, marking Marking, more func(*program)) error {
	explain := func(err error) error {
		return device.Explain(fmt.Sprintf("mark packets of %s (device %d) with class %d", name, ifindex, class), err)
	}
	header := 0
	inward := m.opts.Inward != nil && h == m.port()
	if h == egress || h == long || h == above || !marking.empty() || inward {
		dev, err := m.conn.LookupIndex(ifindex)
		if err != nil {
			return explain(err)
		}
		if dev.Ethernet {
			header = ethernetHeader
		}
	}
	want, err := compile(h.program, class, m.carrier, marking, header)
	if err != nil {
		return explain(err)
	}
	more(&want)
	if inward {
		want.redirect(*m.opts.Inward)
	}
	if err := m.at(h).attach(ifindex, name, want); err != nil {
		return explain(err)
	}
	return nil
}

const ethernetHeader = 14 // bytes

// Detach stops marking at a port. It is no error if nothing marks there, or if
// the device or cgroup is gone.
func (m *Marker) Detach(port plan.Port) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if port.Cgroup != "" {
		if m.opts.Inward != nil {
			return nil
		}
		return m.detachCgroup(port)
	}
	return m.detach(m.port(), port.Ifindex)
}

func (m *Marker) detach(h hook, ifindex int) error {
	if err := m.at(h).detach(ifindex); err != nil {
		return device.Explain(fmt.Sprintf("stop marking packets of device %d", ifindex), err)
	}
	return nil
}

// List reads from the kernel which ports are marked with which class: devices
// ordered by index, then cgroups by path. Remains of those that are gone are
// removed on the way.
func (m *Marker) List() ([]plan.Port, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ports, err := m.at(m.port()).list()
	if m.opts.Inward != nil {
		return ports, err
	}
	cgroups, cgroupErr := m.listCgroups()
	slices.SortFunc(ports, func(a, b plan.Port) int { return cmp.Compare(a.Ifindex, b.Ifindex) })
	slices.SortFunc(cgroups, func(a, b plan.Port) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
	return append(ports, cgroups...), errors.Join(err, cgroupErr)
}

// Release stops carrying packets to the IFB of Options.Inward.
func (m *Marker) Release() error {
	ports, err := m.List()
	for _, port := range ports {
		err = errors.Join(err, m.Detach(port))
	}
	if m.opts.Inward != nil && m.opts.Inward.Back != 0 {
		dir, _ := m.conn.PinDir(m.opts, m.port().folder)
		device.RemovePinDir(dir)
	}
	return err
}

// CleanupAll stops marking everywhere and removes the folders of pins. Packets
// that are carried to an IFB go on being so.
func (m *Marker) CleanupAll() error {
	if m.opts.Inward != nil {
		outward := &Marker{conn: m.conn, opts: m.opts, carrier: m.carrier, notes: m.notes, tcx: m.tcx, names: m.names, log: m.log}
		outward.opts.Inward = nil
		return outward.CleanupAll()
	}
	ports, err := m.List()
	if err != nil {
		return err
	}
	var failed error
	for _, port := range ports {
		failed = errors.Join(failed, m.Detach(port))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range []hook{egress, above, back, innerLo, innerNote} {
		failed = errors.Join(failed, detachAll(m.at(h)))
	}
	failed = errors.Join(failed, splitter{m}.end(), remnants{m}.removeAll(), m.bypass().End(), m.notes.End())
	for _, folder := range []string{ingress.folder, egress.folder, above.folder, back.folder, frames.folder, innerLo.folder, innerNote.folder, sends.folder, opens.folder, sends.goneFolder(), opens.goneFolder(), bypass.Folder, answers.Folder} {
		dir, err := m.conn.PinDir(m.opts, folder)
		if err != nil {
			continue // it was not there either
		}
		device.RemovePinDir(dir)
	}
	return failed
}

// detachAll takes all programs at a hook off.
func detachAll(a attachment) error {
	devices, err := a.list()
	for _, d := range devices {
		err = errors.Join(err, a.detach(d.Ifindex))
	}
	return err
}

// Close closes the socket. Attached programs stay attached.
func (m *Marker) Close() error { return m.conn.Close() }

// haveTCX asks the kernel for tcx by attaching a program that does nothing to a
// device that cannot exist: a kernel that knows tcx misses the device, an older
// one does not understand the question.
var haveTCX = sync.OnceValue(func() bool {
	nothing, err := compile(ingress.program, 0, plan.Carrier{}, Marking{}, 0)
	if err != nil {
		return false
	}
	prog, err := nothing.load(ebpf.AttachTCXIngress, nil)
	if err != nil {
		return false
	}
	defer prog.Close()
	l, err := link.AttachTCX(link.TCXOptions{
		Interface: 1<<31 - 1, Program: prog, Attach: ebpf.AttachTCXIngress,
	})
	if err == nil {
		l.Close()
	}
	return !errors.Is(err, ebpf.ErrNotSupported)
})

// HaveTCX reports whether the kernel has tcx (Linux 6.6).
func HaveTCX() bool { return haveTCX() }
