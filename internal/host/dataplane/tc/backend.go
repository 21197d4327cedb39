// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// Backend steers one link with HTB. It implements dataplane.Backend. All methods
// may be called from several goroutines.
type Backend struct {
	name   string // of the device
	opts   dataplane.Options
	leaf   string // kind of the leaf qdiscs
	log    *slog.Logger
	conn   *device.Conn
	marker *mark.Marker

	mu         sync.Mutex
	want       plan.State                   // as last set, or as remembered
	remembered plan.State                   // what the file holds
	classes    map[plan.ClassID]*classState // what Run knows; the draining ones too
	sampled    time.Time                    // when
	fresh      bool                         // the classifier is this process's own
	held       int                          // index of the device whose root was Weir's when this process looked last; 0 = none
	gone       []dataplane.Leaving          // classes that were removed, not yet said by Counters
	disturbed  []string                     // by another program, mended by Run, not yet said by Missing
}

// classState is what has to be known about a class between two samples.
type classState struct {
	sharer   policy.Sharer
	estimate estimate
	learned  history     // what it is to send in the present interval, see correct
	allowed  policy.Rate // what it may send in the present interval at least
	sent     uint64      // bytes, at the last sample
	packets  uint64      // sent, at the last sample
	waiting  uint64      // packets, at the last sample
	waits    waits
	seen     bool     // sent is set
	told     settings // that it was given last; zero before

	// A class whose workload is gone stays until its queue is empty, at most
	// until then; zero for the others.
	drainUntil time.Time
}

// New prepares to steer a device of the calling thread's network namespace. It
// changes nothing in the kernel. Errors wrap dataplane.ErrNoDevice, ErrNoSupport
// or ErrPrivilege.
func New(name string, opts dataplane.Options, log *slog.Logger) (*Backend, error) {
	kind, err := bestLeaf()
	if err != nil {
		return nil, err
	}
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	conn.Wire = opts.Wire
	b := &Backend{
		name: name, opts: opts, leaf: kind,
		log: log.With("link", name, "backend", "tc"), conn: conn,
		classes: make(map[plan.ClassID]*classState),
	}
	if b.marker, err = mark.New(opts, b.log); err != nil {
		conn.Close()
		return nil, err
	}
	dev, err := conn.Lookup(name)
	if err == nil {
		b.want, err = b.recall(dev)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.remembered = b.want
	for _, class := range workloads(b.want) {
		b.classes[class.ID] = newClassState(class)
	}
	return b, nil
}

// workloads are the classes that HTB has: all but the groups.
func workloads(s plan.State) []plan.Class {
	return slices.DeleteFunc(slices.Clone(s.Classes), func(c plan.Class) bool { return c.Group })
}

// newClassState starts a class as wanting all it can get: samples correct that,
// and until then no class is kept waiting.
func newClassState(class plan.Class) *classState {
	return &classState{
		sharer:   policy.Sharer{Weight: class.Weight, Min: class.Min, Max: class.Ceiling(), Demand: policy.Unlimited},
		estimate: estimate{demand: policy.Unlimited},
	}
}

// Name is "tc".
func (b *Backend) Name() string { return "tc" }

// Moved reports whether devices have come above the link, or workloads into other namespaces.
func (b *Backend) Moved() bool { return b.marker.Moved() }

// Gaps are the promises that HTB does not hold.
func (b *Backend) Gaps() []string {
	gaps := []string{
		"Shares follow a change within a second, typically within 0.4 s, not within 100 ms: HTB's rates are computed anew every 200 ms.",
		"A workload without a min that wakes up gets its share after up to 400 ms; until then it has 1/200 of the link, or less where many are idle.",
		"What an idle workload's min lends is divided in turns: one that is held up by its own min, and should have none of it, was seen to get 2.4 % of the link.",
		"While no agent runs, the rates stay what they were last; who wants more can only borrow what others leave.",
		"The schedulers qcon and ancs are not available; fair, qcon and ancs all become HTB.",
		"Shaped traffic costs about three times the CPU time per packet of the BPF qdisc.",
		"Offered packets are computed as sent, dropped and waiting; the bytes of dropped packets are not counted.",
		"A link's overhead, least length and cells are those of an offloaded packet, not of each of its frames, and a negative overhead counts as 0.",
		"A limit in bytes is held as a number of full frames, and the limit of the whole link is not held: each workload has its own.",
	}
	gaps = append(gaps,
		"A reservation is held by an HTB ceil, which lets bursts through: right over a second, not from packet to packet; those of queues are not held.",
		"Bursts are not available: a workload never sends above its max for longer than a timer.",
		"Times of departure (SO_TXTIME, TCP's pacing by fq) are not kept: a packet leaves as one without a time.",
		"Groups are not available: each member counts for itself on the link, with its own weight, min and max; a group's weight, min and max do nothing.",
		fmt.Sprintf("Disciplines, queues and AQM are not available: each workload has one queue, %s with the kernel's defaults.", b.leaf))
	gaps = append(gaps, b.marker.Gaps()...)
	if !changeable(b.leaf) {
		gaps = append(gaps, "The kernel has no fq_codel, and sfq cannot change its limit: a workload keeps the one that it began with.")
	}
	if b.leaf == "pfifo" {
		gaps = append(gaps, "The kernel has neither fq_codel nor sfq: inside one workload a large flow delays the small ones.")
	}
	return gaps
}

// Abilities are those of HTB with one leaf qdisc for each workload.
func (b *Backend) Abilities() dataplane.Abilities { return abilitiesOf(b.leaf) }

// abilitiesOf are the abilities with a kind of leaf qdisc.
func abilitiesOf(leaf string) dataplane.Abilities {
	a := dataplane.Abilities{NoBurst: true, NoGroups: true, OneQueue: true, Discipline: discipline.SFQ, AQM: discipline.AQM{Off: true},
		Scheduler: "htb", NoNegativeOverhead: true, NoByteLimit: true}
	switch leaf {
	case "fq_codel": // with the kernel's defaults, which are also Weir's
		a.AQM = discipline.AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval, ECN: true}
	case "pfifo":
		a.Discipline = discipline.FIFO
	}
	return a
}

// State reads what the kernel has, and adds from memory what HTB cannot hold:
// names, weights, mins.
func (b *Backend) State() (plan.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dev, err := b.conn.Lookup(b.name)
	if err != nil {
		return plan.State{}, err
	}
	root, err := b.conn.Root(dev)
	if err != nil {
		return plan.State{}, err
	}
	state := plan.State{Link: plan.Link{Device: b.name}}
	if ours(root) {
		classes, err := listClasses(b.conn, dev.Index)
		if err != nil {
			return state, device.Explain("read the classes of "+b.name, err)
		}
		state.Link = b.linkFrom(classes)
		state.Classes = b.classesFrom(classes)
	}
	marked, err := b.marker.List()
	if err != nil {
		return state, err
	}
	for _, port := range marked {
		// Ports of other links are theirs to report.
		if hasPort(b.want.Ports, port) {
			state.Ports = append(state.Ports, port)
		}
	}
	return state, nil
}

// ours says that the root is this backend's; Weir's other backend has another kind.
func ours(root device.Qdisc) bool { return root.Kind == "htb" && root.Ours() }

func (b *Backend) linkFrom(classes map[uint32]htbClass) plan.Link {
	link := b.want.Link
	link.Device = b.name
	kernel := classes[linkMinor].settings.Ceil
	if uint64(link.Capacity)/8 != kernel { // HTB counts whole bytes
		link.Capacity = bits(kernel)
	}
	return link
}

func (b *Backend) classesFrom(classes map[uint32]htbClass) []plan.Class {
	var list []plan.Class
	for minor := range classes {
		id, ok := classOfMinor(minor)
		if !ok {
			continue
		}
		if class, ok := b.want.Class(id); ok && !class.Group {
			list = append(list, class)
		} else if known := b.classes[id]; known == nil || known.drainUntil.IsZero() {
			list = append(list, plan.Class{ID: id, Weight: 1})
		}
	}
	for _, class := range b.want.Classes {
		if class.Group { // as far as this backend has any
			list = append(list, class)
		}
	}
	slices.SortFunc(list, func(x, y plan.Class) int { return cmp.Compare(x.ID, y.ID) })
	return list
}

// Close lets go of the sockets; HTB and the marks stay as they are.
func (b *Backend) Close() error {
	return errors.Join(b.conn.Close(), b.marker.Close())
}

// Cleanup removes Weir's qdisc and puts back the former one. With the last link of
// the namespace, marking ends.
func (b *Backend) Cleanup(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dev, err := b.conn.Lookup(b.name)
	gone := errors.Is(err, dataplane.ErrNoDevice) // and its qdisc with it
	if err != nil && !gone {
		return err
	}
	if !gone {
		if err := errors.Join(b.conn.GiveBack(dev, b.opts, b.log), b.marker.DetachLink(dev)); err != nil {
			return err
		}
	}
	others, err := b.conn.SteersOthers(dev)
	if err == nil && !others {
		err = b.marker.CleanupAll()
	}
	if err != nil {
		return fmt.Errorf("clean up %s: %w", b.name, err)
	}
	b.want, b.remembered, b.fresh = plan.State{}, plan.State{}, false
	clear(b.classes)
	if gone {
		return nil
	}
	return b.forget(dev)
}
