// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strconv"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/sdn"
	"weir/internal/lab/peers"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

// port is the shared link as a port of a switch.
type port struct {
	s  *scenario.Scenario
	sw *topology.Switch
}

// policy is that of the port's one class: its queues by OpenFlow's numbers.
func (p *port) policy() policy.Policy {
	asked := p.s.OVS.Policy.Asked()
	asked.Queues = p.s.OVS.Numbered()
	return asked
}

// layDown makes the switch put packets into queues, as weir sdn does.
func (p *port) layDown(ctx context.Context, scheduler string) error {
	if !p.s.CanSchedule(scheduler) {
		return fmt.Errorf("scheduler %s cannot schedule the port of a switch; take fair or %s", scheduler, scenario.OVSHTB)
	}
	file := p.file(scheduler == scenario.OVSHTB)
	if _, err := sdn.Apply(ctx, file, false, false); err != nil {
		return err
	}
	if scheduler == scenario.OVSHTB {
		return p.sw.Control(p.htbRows(file.Ports[0].Policy)...)
	}
	return nil
}

// file is what weir sdn would be given. Open vSwitch has no flow queues of its
// own, so with sfq each host has a queue there.
func (p *port) file(own bool) config.Switch {
	at := config.SwitchPort{Name: topology.Uplink, Bandwidth: p.s.Link.Bandwidth, Policy: p.policy()}
	perHost := own && at.Policy.Discipline.OrDefault() == discipline.SFQ
	if perHost {
		at.Policy.Discipline, at.Policy.Queues = discipline.CBWFQ, nil
		for i, w := range p.s.Workloads {
			at.Policy.Queues = append(at.Policy.Queues, policy.Queue{
				Name: w.Name, Match: []classify.Match{{Queue: classify.Given(uint16(i))}},
			})
		}
	}
	f := config.Switch{Path: p.s.File, Bridge: topology.Bridge, OVSDB: p.sw.Database(), Ports: []config.SwitchPort{at}}
	f.OpenFlow = config.BridgeAddress(f.OVSDB, f.Bridge)
	for _, q := range p.s.OVS.Policy.Queues {
		for _, m := range q.Match {
			f.Flows = append(f.Flows, config.SwitchFlow{Match: m, Port: at.Name, Queue: q.Name})
		}
	}
	for i, w := range p.s.Workloads {
		queue := w.Queue
		if rest := p.s.Rest(); queue == "" && rest >= 0 {
			queue = p.s.OVS.Policy.Queues[rest].Name
		}
		if perHost {
			queue = w.Name
		}
		if queue != "" {
			f.Flows = append(f.Flows, config.SwitchFlow{InPort: fmt.Sprintf("w%d", i+1), Port: at.Name, Queue: queue})
		}
	}
	return f
}

// htbRows are the arguments of ovs-vsctl that give the port Open vSwitch's own
// queues, with what linux-htb has for the discipline: a min-rate each, and for
// strict queues a priority, which decides who borrows first.
func (p *port) htbRows(asked policy.Policy) []string {
	rate := func(r policy.Rate) string { return strconv.FormatUint(uint64(r), 10) }
	args := []string{"set", "port", topology.Uplink, "qos=@qos", "--",
		"--id=@qos", "create", "qos", "type=linux-htb", "other-config:max-rate=" + rate(p.s.Link.Bandwidth)}
	for i := range asked.Queues {
		args = append(args, fmt.Sprintf("queues:%d=@q%d", i, i))
	}
	for i, q := range asked.Queues {
		low := max(q.Min.Rate, q.Rate.Rate)
		if low == 0 {
			low = p.s.OVS.HTBMin
		}
		priority := 0
		switch {
		case q.Priority != 0:
			priority = int(q.Priority)
		case asked.Discipline == discipline.PQ:
			priority = i
		case asked.Discipline == discipline.LLQ && i > 0:
			priority = 1
		}
		args = append(args, "--", fmt.Sprintf("--id=@q%d", i), "create", "queue",
			"other-config:min-rate="+rate(low), "other-config:max-rate="+rate(p.s.Link.Bandwidth),
			fmt.Sprintf("other-config:priority=%d", priority))
	}
	return args
}

// ovsSteering is Open vSwitch's own scheduling.
type ovsSteering struct{ site }

func (o ovsSteering) Apply(context.Context, scenario.Promises) error { return nil }

func (o ovsSteering) Drops() (*uint64, error) {
	n, err := peers.Drops(o.host, topology.Uplink)
	return &n, err
}

func (o ovsSteering) Close(context.Context) error {
	return o.ovs.sw.Control("clear", "port", topology.Uplink, "qos")
}
