// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/backends"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
	"weir/internal/lab/peers"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
	"weir/internal/lab/zones"
)

// steering is whatever schedules the link: one of Weir's backends or a peer.
type steering interface {
	// Apply makes the scheduler follow the policies of workloads and groups.
	Apply(ctx context.Context, now scenario.Promises) error
	// Drops is how many packets it has lost so far, nil if it cannot tell.
	Drops() (*uint64, error)
	// Close ends it and leaves the link without a scheduler.
	Close(ctx context.Context) error
}

// site is the place in which a scheduler is put to work.
type site struct {
	host   *topology.NS
	link   scenario.Link
	names  []string        // of the workloads
	zones  []string        // of the workloads, "" = none
	groups []string        // their names
	ports  []topology.Port // of the workloads
	ovs    *port           // the link is a port of a switch; nil = it is not
	leaf   peers.Leaf      // of the kernel's schedulers that have classes
	how    scenario.Control
}

// steer starts the named scheduler with the given policies. backend is its kind
// for the report: bpf, tc or kernel; notes are what the reader should know.
func steer(ctx context.Context, at site, scheduler, backend string, now scenario.Promises, log *slog.Logger) (s steering, kind string, notes []string, err error) {
	if at.ovs != nil {
		if err := at.ovs.layDown(ctx, scheduler); err != nil {
			return nil, "", nil, err
		}
		if scheduler == scenario.OVSHTB {
			return ovsSteering{at}, "kernel", nil, nil
		}
	}
	if p, ok := peers.Find(scheduler); ok {
		if at.link.Ingress && p.Name != "none" {
			return nil, "", nil, fmt.Errorf("scheduler %s: link.direction ingress is for Weir's own schedulers and none", scheduler)
		}
		setting := peers.Setting{Device: topology.Uplink, Link: at.link, Policies: now.Workloads, Leaf: at.leaf}
		steering := peerSteering{}
		if strings.HasSuffix(scheduler, scenario.LimitedGSO) {
			if steering.unsplit, err = mark.Split(topology.Uplink, at.slowest(), labOptions, log); err != nil {
				return nil, "", nil, err
			}
		}
		if steering.Running, err = peers.Start(p, at.host, setting, at.ports); err != nil {
			if steering.unsplit != nil {
				err = errors.Join(err, steering.unsplit())
			}
			return nil, "", nil, err
		}
		return steering, "kernel", ignored(now), nil
	}
	b, behind, notes, err := at.newBackends(backend, log)
	if err != nil {
		return nil, "", nil, err
	}
	if scheduler != plan.SchedulerFair && b.Name() == plan.BackendTC {
		b.Close()
		return nil, "", nil, fmt.Errorf("scheduler %s needs a kernel with BPF qdiscs (Linux 6.16 or later); run the scenario in the VM (vm/run)", scheduler)
	}
	w := &weirSteering{site: at, backend: b, behind: behind, scheduler: scheduler, regulator: newRegulator(b, cmp.Or(at.direction(), policy.Egress), at.how, log)}
	if err := w.Apply(ctx, now); err != nil {
		return nil, "", nil, errors.Join(err, w.Close(ctx))
	}
	if b.Name() == plan.BackendTC && len(ignored(now)) > 0 {
		notes = append(notes, b.Gaps()...)
	}
	run, cancel := context.WithCancel(ctx)
	all := w.all()
	w.cancel, w.done = cancel, make(chan error, len(all))
	for _, b := range all {
		go func() { w.done <- b.Run(run) }()
	}
	return w, b.Name(), notes, nil
}

// ignored says, once, what of the policies none of the kernel's schedulers looks
// at.
func ignored(now scenario.Promises) []string {
	said := map[string]bool{}
	for _, p := range now.Workloads {
		said["disciplines"] = said["disciplines"] || p.Discipline != "" || p.AQM != (discipline.AQM{})
		said["queues"] = said["queues"] || len(p.Queues) > 0
		said["DSCP"] = said["DSCP"] || p.DSCP != nil
		said["groups"] = said["groups"] || p.Group != ""
		said["reservations"] = said["reservations"] || p.Reserve != 0
	}
	var words []string
	for _, word := range []string{"disciplines", "queues", "DSCP", "groups", "reservations"} {
		if said[word] {
			words = append(words, word)
		}
	}
	if words == nil {
		return nil
	}
	return []string{"this scheduler knows nothing of " + strings.Join(words, ", ")}
}

// labOptions keep everything inside the sandbox's private file systems.
var labOptions = dataplane.Options{StateDir: filepath.Join(stateDir, "state"), BPFFS: "/sys/fs/bpf/weir"}

// newBackends opens one of Weir's backends, and one for each zone. The notes say why it is not
// the BPF qdisc.
func (s site) newBackends(want string, log *slog.Logger) (b dataplane.Backend, zones []dataplane.Backend, notes []string, err error) {
	kind, lacks := backends.Choose(want)
	if lacks != nil {
		notes = append(notes, fmt.Sprintf("the fallback tc schedules: %v", lacks))
	}
	if s.link.Ingress {
		b, err = s.openEnd(kind, "", log)
	} else {
		b, err = backends.Open(kind, topology.Uplink, labOptions, log)
	}
	for _, z := range s.link.Zones {
		if err != nil {
			break
		}
		var behind dataplane.Backend
		behind, err = s.openEnd(kind, z.Name, log)
		zones = append(zones, behind)
	}
	return b, zones, notes, err
}

// peerSteering is a qdisc of the kernel.
type peerSteering struct {
	*peers.Running
	unsplit func() error // nil = packets stay as they are
}

func (p peerSteering) Apply(_ context.Context, now scenario.Promises) error {
	return p.Running.Apply(now.Workloads)
}

func (p peerSteering) Drops() (*uint64, error) {
	n, err := p.Running.Drops()
	return &n, err
}

func (p peerSteering) Close(context.Context) error {
	err := p.Running.Close()
	if p.unsplit != nil {
		err = errors.Join(err, p.unsplit())
	}
	return err
}

// weirSteering is one of Weir's backends, which gets its plan from the scenario.
type weirSteering struct {
	site
	backend   dataplane.Backend
	behind    []dataplane.Backend // of the link's zones
	scheduler string
	regulator *regulator
	cancel    context.CancelFunc
	done      chan error
}

// slowest is the capacity of the link, or of its slowest zone.
func (s site) slowest() policy.Rate {
	slowest := s.link.Bandwidth
	for _, z := range s.link.Zones {
		slowest = min(slowest, z.Bandwidth)
	}
	return slowest
}

func (w *weirSteering) Apply(ctx context.Context, now scenario.Promises) error {
	if err := w.limitOffload(now); err != nil {
		return err
	}
	state, err := w.state(now, zones.Zone{})
	if err != nil {
		return err
	}
	if err := w.regulator.set(ctx, state); err != nil {
		return err
	}
	for i, z := range w.link.Zones {
		state, err := w.state(now, z)
		if err == nil {
			err = w.behind[i].Set(ctx, state)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitOffload does what the agent does: workloads with a reservation build packets that are small
// enough for the link.
func (w *weirSteering) limitOffload(now scenario.Promises) error {
	slowest := w.slowest()
	for i, p := range now.Workloads {
		if i >= len(w.ports) || w.ports[i].PeerNetns == "" { // a tap without offload: its packets are frames
			continue
		}
		port := w.ports[i]
		var err error
		if p.Asked().Reserved(slowest) == 0 {
			err = device.RestoreGSOOf(labOptions, port.PeerNetns, port.PeerIfindex)
		} else {
			err = device.LimitGSO(labOptions, port.PeerNetns, port.PeerIfindex, device.GSOLimit(slowest))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// state is the plan for the scenario's workloads on the link, or in one of its zones; workload w
// is class w+1, the groups follow, then the zones.
func (w *weirSteering) state(now scenario.Promises, z zones.Zone) (plan.State, error) {
	link := plan.Link{Device: topology.Uplink, Zone: z.Name, Direction: w.direction(), Capacity: cmp.Or(z.Bandwidth, w.rest()), Reserve: 1, Scheduler: w.scheduler}
	if w.scheduler == plan.SchedulerFair {
		link.Favour = w.link.Favour
	}
	if w.ovs != nil {
		host := plan.Workload{Key: plan.HostKey, Name: "port", Policy: w.ovs.policy()}
		return build(link, []plan.Workload{host}, nil)
	}
	var workloads []plan.Workload
	numbers := map[string]plan.ClassID{}
	for i, p := range now.Workloads {
		name := w.name(i)
		numbers[name] = plan.ClassID(i + 1)
		wl := plan.Workload{Key: name, Name: name, Policy: p.Asked()}
		if i < len(w.zones) && w.zones[i] != z.Name { // it sends nothing there
			wl.Policy.Min, wl.Policy.Max = policy.Amount{}, policy.Amount{}
		}
		if i < len(w.ports) {
			wl.Ports = []plan.Port{{Device: w.ports[i].Device, Ifindex: w.ports[i].Ifindex}}
		}
		workloads = append(workloads, wl)
	}
	for g, p := range now.Groups {
		key := plan.GroupKey(w.groups[g])
		numbers[key] = plan.ClassID(len(now.Workloads) + g + 1)
		workloads = append(workloads, plan.Workload{Key: key, Name: w.groups[g], Policy: p.Asked(), Group: true})
	}
	for i, behind := range w.link.Zones {
		key := plan.ZoneKey(behind.Name)
		numbers[key] = plan.ClassID(len(now.Workloads) + len(now.Groups) + i + 1)
		if z.Name == "" && !w.link.Ingress {
			p := policy.Default()
			p.Min, p.Discipline = policy.Amount{Rate: behind.Bandwidth}, discipline.FIFO
			workloads = append(workloads, plan.Workload{Key: key, Name: "zone " + behind.Name, Policy: p})
		}
		if behind.Name == z.Name {
			link.Class = numbers[key]
		}
	}
	return build(link, workloads, numbers)
}

// direction is the link's, as a plan has it.
func (s site) direction() policy.Direction {
	if s.link.Ingress {
		return policy.Ingress
	}
	return ""
}

// build is plan.Build where everything has to be held.
func build(link plan.Link, workloads []plan.Workload, numbers map[string]plan.ClassID) (plan.State, error) {
	state, refusals, err := plan.Build(link, workloads, numbers)
	if err != nil {
		return plan.State{}, err
	}
	for _, r := range refusals {
		return plan.State{}, r.Err // it names the workload
	}
	return state, nil
}

func (w *weirSteering) name(i int) string {
	if i < len(w.names) {
		return w.names[i]
	}
	return fmt.Sprintf("w%d", i+1)
}

func (w *weirSteering) Drops() (*uint64, error) {
	var sum uint64
	for _, b := range w.all() {
		snap, err := b.Counters()
		if err != nil {
			return nil, err
		}
		for _, c := range snap.Classes {
			for _, n := range c.Drops {
				sum += n
			}
		}
	}
	return &sum, nil
}

// all are the backends, the link's own last.
func (w *weirSteering) all() []dataplane.Backend { return append(slices.Clone(w.behind), w.backend) }

func (w *weirSteering) Close(ctx context.Context) error {
	runErr := w.regulator.close()
	if w.cancel != nil {
		w.cancel()
	}
	for _, b := range w.all() {
		if w.cancel != nil {
			if err := <-w.done; !errors.Is(err, context.Canceled) {
				runErr = errors.Join(runErr, err)
			}
		}
		runErr = errors.Join(runErr, b.Cleanup(ctx), b.Close())
	}
	return runErr
}
