// SPDX-License-Identifier: Apache-2.0

// Package answers notes for whom the kernel answers: it attaches bpf/marking/answers.bpf.c to
// netfilter's LOCAL_IN, and keeps the map by which the programs at links and the qdiscs read what
// is noted (bpf/marking/asked.h).
//
// Example: Stand attaches the program for IPv4 and IPv6 in the network namespace of the links; from
// then on an echo reply to a source that container web, class 3, has forged is of class 3.
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

// names are the names of the pins, for IPv4 and IPv6.
func (n Notes) names() []string {
	carrier := n.Opts.Carrier()
	name := fmt.Sprintf("%s%s_%08x_%t", linkPin, build(), uint32(carrier.Mask), carrier.Cilium)
	return []string{name + "_4", name + "_6"}
}

var build = sync.OnceValue(func() string { return pinned.Build(_AnswersBytes) })

// attach attaches the programs that have no pin.
func (n Notes) attach(dir string, names []string) error {
	noted, err := askers.Open(dir)
	if err != nil {
		return err
	}
	defer noted.Close()
	program, err := load(n.Opts.Carrier(), noted)
	if err != nil {
		return err
	}
	defer program.Close()
	for i, family := range families {
		if !pinned.Absent(dir, names[i]) {
			continue
		}
		l, err := attach(program, family)
		if err == nil {
			err = errors.Join(l.Pin(filepath.Join(dir, names[i])), l.Close()) // without a pin this detaches
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var families = [2]link.NetfilterProtocolFamily{link.NetfilterProtoIPv4, link.NetfilterProtoIPv6}

// load loads the program, which says of packets what the carrier says.
func load(carrier plan.Carrier, askers *ebpf.Map) (*ebpf.Program, error) {
	spec, err := loadAnswers()
	if err != nil {
		return nil, err
	}
	var in answersWeirCarrier
	in.More, in.Others, in.Classes, in.Shift, in.QueueShift = carrier.Where()
	if err := spec.Variables[answersVarWeirIn].Set(in); err != nil {
		return nil, err
	}
	// The program alone, as in package bypass.
	var programs answersPrograms
	err = spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{Map: askers}})
	return programs.WeirNoteIn, err
}

// attach puts a program before those of others. The kernel gives each BPF program of a hook a
// priority of its own, and no one the very first.
func attach(program *ebpf.Program, family link.NetfilterProtocolFamily) (l link.Link, err error) {
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

// Unsupported says why this kernel cannot note who asks; nil = it can.
var Unsupported = sync.OnceValue(func() error {
	spec, err := loadAnswers()
	if err != nil {
		return err
	}
	askers, err := ebpf.NewMap(spec.Maps[Map])
	if err != nil {
		return err
	}
	defer askers.Close()
	program, err := load(plan.Carrier{}, askers)
	if err != nil {
		return err
	}
	defer program.Close()
	for _, family := range families {
		l, err := attach(program, family)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
})

// Gap says what is not held on a kernel that cannot note who asks; "" = this one can.
func Gap() string {
	err := Unsupported()
	if err == nil {
		return ""
	}
	return "What the kernel answers to a source that a workload has forged is the host's, which a max for host bounds: " +
		"this kernel cannot say who asked (needs Linux 6.4 with BTF and CONFIG_NETFILTER_BPF_LINK): " + device.Reason("note for whom the kernel answers", err)
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
