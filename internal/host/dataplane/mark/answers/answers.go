// SPDX-License-Identifier: Apache-2.0

// Package answers notes for whom the kernel answers: it attaches bpf/marking/answers.bpf.c to
// netfilter's LOCAL_IN and to the kernel's functions that answer what is not delivered. It keeps
// the map by which the programs at links and the qdiscs read what is noted (bpf/marking/asked.h).
//
// Example: Stand attaches the programs for IPv4 and IPv6 in the network namespace of the links;
// from then on an echo reply to a source that container web, class 3, has forged is of class 3.
//
// Map and links are pinned, so they outlive the agent; End removes them. The kernel keeps the
// namespace of such a link for as long as the link. So there is one in Weir's own namespace alone,
// and that of a workload has a program at its lo (internal/host/dataplane/mark/inner.go).
//
// What it does not do: change or drop a packet.
package answers

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/pinned"
)

// Folder is where map and links are pinned, the links under the digest of their build.
const Folder = "answers"

// Map is the name of the map in every object that reads or writes it.
const Map = answersMapWeirAskers

const (
	mapPin  = "askers"
	linkPin = "in_"
)

var askers = pinned.Map{Pin: mapPin, Links: linkPin, Name: Map, Collection: loadAnswers}

// mu keeps the Markers of several links from making the pins at once.
var mu sync.Mutex

// Notes are map and programs of a network namespace.
type Notes struct {
	Conn *device.Conn
	Opts dataplane.Options
}

// Askers opens the map, or makes it.
func (n Notes) Askers() (*ebpf.Map, error) {
	mu.Lock()
	defer mu.Unlock()
	dir, err := n.Conn.PinDir(n.Opts, Folder)
	if err != nil {
		return nil, err
	}
	return askers.Open(dir)
}

// Stand has the programs of this build note who asks, and ends those of others. It does nothing
// where the kernel cannot: Unsupported says so.
func (n Notes) Stand() error {
	if Unsupported() != nil {
		return nil
	}
	mu.Lock()
	defer mu.Unlock()
	dir, err := n.Conn.PinDir(n.Opts, Folder)
	if err != nil {
		return err
	}
	names := n.names()
	if lost(dir, names) {
		if err := n.attach(dir, names); err != nil {
			return fmt.Errorf("note for whom the kernel answers: %w", err)
		}
	}
	return pinned.EndLinks(dir, linkPin, names)
}

// Missing reports whether a program that Stand has attached, or the map, has no pin any more.
func (n Notes) Missing() bool {
	dir, err := n.Conn.PinDir(n.Opts, Folder)
	return err == nil && Unsupported() == nil && lost(dir, n.names())
}

func lost(dir string, names []string) bool {
	return pinned.Absent(dir, mapPin) || slices.ContainsFunc(names, func(name string) bool { return pinned.Absent(dir, name) })
}

// place is where a program is attached. Pin is the end of its link's name.
type place struct {
	pin     string
	program func(answersPrograms) *ebpf.Program
	attach  func(*ebpf.Program) (link.Link, error)
}

var delivered = []place{
	{"_4", func(p answersPrograms) *ebpf.Program { return p.WeirNoteIn }, onDelivery(link.NetfilterProtoIPv4)},
	{"_6", func(p answersPrograms) *ebpf.Program { return p.WeirNoteIn }, onDelivery(link.NetfilterProtoIPv6)},
}

// functions are those by which the kernel answers what it does not deliver.
var functions = []place{
	{"_icmp", func(p answersPrograms) *ebpf.Program { return p.WeirNoteIcmp }, onFunction},
	{"_icmp6", func(p answersPrograms) *ebpf.Program { return p.WeirNoteIcmp6 }, onFunction},
	{"_reset", func(p answersPrograms) *ebpf.Program { return p.WeirNoteReset }, onFunction},
	{"_arp", func(p answersPrograms) *ebpf.Program { return p.WeirNoteArp }, onFunction},
}

// places are those of this kernel.
func places() []place {
	all := slices.Clone(delivered)
	if Unwatched() == nil {
		all = append(all, functions...)
	}
	return all
}

// names are the names of the pins of places.
func (n Notes) names() (names []string) {
	carrier := n.Opts.Carrier()
	for _, p := range places() {
		names = append(names, fmt.Sprintf("%s%s_%08x_%t%s", linkPin, build(), uint32(carrier.Mask), carrier.Cilium, p.pin))
	}
	return names
}

var build = sync.OnceValue(func() string { return pinned.Build(_AnswersBytes) })

// attach attaches the programs that have no pin.
func (n Notes) attach(dir string, names []string) error {
	noted, err := askers.Open(dir)
	if err != nil {
		return err
	}
	defer noted.Close()
	programs, err := load(n.Opts.Carrier(), n.Conn.Netns(), noted, Unwatched() == nil)
	if err != nil {
		return err
	}
	defer programs.Close()
	for i, p := range places() {
		if !pinned.Absent(dir, names[i]) {
			continue
		}
		l, err := p.attach(p.program(programs))
		if err == nil {
			err = errors.Join(l.Pin(filepath.Join(dir, names[i])), l.Close()) // without a pin this detaches
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load loads the programs, which say of packets what the carrier says. Those at functions, if they
// are to be had, take the packets of a network namespace alone.
func load(carrier plan.Carrier, netns uint64, askers *ebpf.Map, all bool) (programs answersPrograms, err error) {
	spec, err := loadAnswers()
	if err != nil {
		return programs, err
	}
	var in answersWeirCarrier
	in.More, in.Others, in.Classes, in.Shift, in.QueueShift = carrier.Where()
	if err := errors.Join(spec.Variables[answersVarWeirIn].Set(in), spec.Variables[answersVarWeirNetns].Set(uint32(netns))); err != nil {
		return programs, err
	}
	opts := &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{Map: askers}}
	if all { // the programs alone, as in package bypass
		err = spec.LoadAndAssign(&programs, opts)
		return programs, err
	}
	var one struct {
		In *ebpf.Program `ebpf:"weir_note_in"`
	}
	err = spec.LoadAndAssign(&one, opts)
	return answersPrograms{WeirNoteIn: one.In}, err
}

// onDelivery puts a program before those of others. The kernel gives each BPF program of a hook a
// priority of its own, and no one the very first.
func onDelivery(family link.NetfilterProtocolFamily) func(*ebpf.Program) (link.Link, error) {
	return func(program *ebpf.Program) (l link.Link, err error) {
		const tries = 16
		for i := range int32(tries) {
			l, err = link.AttachNetfilter(link.NetfilterOptions{
				Program: program, ProtocolFamily: family, Hook: link.NetfilterInetLocalIn, Priority: math.MinInt32 + 1 + i,
			})
			if !errors.Is(err, unix.EBUSY) {
				break
			}
		}
		return l, err
	}
}

func onFunction(program *ebpf.Program) (link.Link, error) {
	return link.AttachTracing(link.TracingOptions{Program: program})
}

// Unsupported says why this kernel cannot note who asks; nil = it can.
func Unsupported() error { return tried()[0] }

// Unwatched says why this kernel cannot note who is answered without a delivery; nil = it can.
func Unwatched() error { return tried()[1] }

// tried has what became of both when it was tried for a moment.
var tried = sync.OnceValue(func() [2]error {
	err := try(true, append(slices.Clone(delivered), functions...))
	if err == nil {
		return [2]error{}
	}
	return [2]error{try(false, delivered), err}
})

// try attaches the programs of places for a moment.
func try(all bool, places []place) error {
	spec, err := loadAnswers()
	if err != nil {
		return err
	}
	askers, err := ebpf.NewMap(spec.Maps[Map])
	if err != nil {
		return err
	}
	defer askers.Close()
	programs, err := load(plan.Carrier{}, 0, askers, all)
	if err != nil {
		return err
	}
	defer programs.Close()
	for _, p := range places {
		l, err := p.attach(p.program(programs))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Gap says what is not held on a kernel that cannot note who asks; "" = this one can.
func Gap() string {
	if err := Unsupported(); err != nil {
		return "What the kernel answers to a source that a workload has forged is the host's, which a max for host bounds: " +
			"this kernel cannot say who asked (needs Linux 6.4 with BTF and CONFIG_NETFILTER_BPF_LINK): " + device.Reason("note for whom the kernel answers", err)
	}
	if err := Unwatched(); err != nil {
		return "Errors of ICMP, resets of netfilter and replies of ARP to a source that a workload has forged are the host's, which a max for host bounds: " +
			"this kernel cannot say who asked (needs BTF, CONFIG_FUNCTION_TRACER and leave to trace, which lockdown or CAP_PERFMON decide; arm64: Linux 6.4): " + device.Reason("note for whom the kernel answers", err)
	}
	return ""
}

// End takes programs and map off.
func (n Notes) End() error {
	mu.Lock()
	defer mu.Unlock()
	dir, err := n.Conn.PinDir(n.Opts, Folder)
	if err != nil {
		return nil // it was not there either
	}
	return askers.End(dir)
}
