// SPDX-License-Identifier: Apache-2.0

package switchport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/internal/invalid"
	"weir/internal/policy"
	"weir/internal/policy/classify"
	"weir/internal/policy/discipline"
	"weir/internal/sdn/ovsdb"
)

// Keys in other_config; the first three are Open vSwitch's own.
const (
	keyMaxRate      = "max-rate" // bits per second
	keyMinRate      = "min-rate" // bits per second
	keyPriority     = "priority"
	keyDiscipline   = "weir-discipline"
	keyAQM          = "weir-aqm"
	keyName         = "weir-name"
	keyLimitPackets = "weir-limit-packets"
)

// Port is a port of a switch that is a link of Weir's.
type Port struct {
	Bridge, Name string
	Device       string      // the network device that it sends through
	Bandwidth    policy.Rate // its capacity
	// Policy is the policy of the link's one workload, the host: the discipline and the
	// queues, each with the number that set_queue gives as its match.
	Policy policy.Policy
}

// Encode returns the port as a QoS row with its queues.
func Encode(p Port) *ovsdb.QoS {
	owner := p.Bridge + "/" + p.Name
	d := p.Policy.Discipline.OrDefault()
	q := &ovsdb.QoS{
		Type: ovsdb.Noop,
		OtherConfig: map[string]string{
			keyMaxRate:    strconv.FormatUint(uint64(p.Bandwidth), 10),
			keyDiscipline: string(d),
		},
		ExternalIDs: map[string]string{ovsdb.Owner: owner},
		Queues:      map[int]ovsdb.Queue{},
	}
	if aqm := p.Policy.AQM.Compact(); aqm != "" {
		q.OtherConfig[keyAQM] = aqm
	}
	for i, queue := range p.Policy.Queues {
		priority := i
		if queue.Priority != 0 {
			priority = int(queue.Priority)
		}
		row := ovsdb.Queue{
			OtherConfig: map[string]string{keyName: queue.Name, keyPriority: strconv.Itoa(priority)},
			ExternalIDs: map[string]string{ovsdb.Owner: owner + "/" + queue.Name},
		}
		if rate := max(queue.Min.Of(p.Bandwidth), queue.Rate.Of(p.Bandwidth)); rate > 0 {
			row.OtherConfig[keyMinRate] = strconv.FormatUint(uint64(rate), 10)
		}
		if queue.LimitPackets > 0 {
			row.OtherConfig[keyLimitPackets] = strconv.FormatUint(uint64(queue.LimitPackets), 10)
		}
		if queue.DSCP != nil {
			dscp := int(*queue.DSCP)
			row.DSCP = &dscp
		}
		q.Queues[int(Number(queue))] = row
	}
	return q
}

// Number returns the number that set_queue gives a queue that was read from rows or from
// a switch file.
func Number(q policy.Queue) uint16 {
	if len(q.Match) == 0 {
		return 0
	}
	return q.Match[0].Queue.Value
}

// IsPort reports whether the port is meant for Weir: its row names a discipline.
func IsPort(p ovsdb.Port) bool { return p.QoS != nil && p.QoS.OtherConfig[keyDiscipline] != "" }

// Decode returns the port that IsPort accepts, as its rows describe it. The error names
// the port, the value and the remedy.
func Decode(p ovsdb.Port) (Port, error) {
	device, err := p.Device()
	if err != nil {
		return Port{}, err // names the port
	}
	port, err := decode(p)
	port.Device = device
	if err != nil {
		return Port{}, fmt.Errorf("port %s of bridge %s: %w", p.Name, p.Bridge, err)
	}
	return port, nil
}

func decode(p ovsdb.Port) (Port, error) {
	port := Port{Bridge: p.Bridge, Name: p.Name, Policy: policy.Default()}
	if p.QoS.Type != ovsdb.Noop {
		return port, fmt.Errorf("QoS type %q makes Open vSwitch schedule the port itself; set it to %s", p.QoS.Type, ovsdb.Noop)
	}
	var err error
	if port.Bandwidth, err = rate(p.QoS.OtherConfig, keyMaxRate); err != nil {
		return port, err
	}
	if port.Bandwidth == 0 {
		return port, errors.New("QoS has no other_config:max-rate; say what the port can send, in bits per second")
	}
	if port.Policy.Discipline, err = discipline.Parse(p.QoS.OtherConfig[keyDiscipline]); err != nil {
		return port, invalid.InField(keyDiscipline, err)
	}
	if port.Policy.AQM, err = discipline.ParseAQM(p.QoS.OtherConfig[keyAQM]); err != nil {
		return port, invalid.InField(keyAQM, err)
	}
	if port.Policy.Discipline.HasQueues() { // others find their queues themselves
		if port.Policy.Queues, err = queues(p.QoS.Queues, port.Policy.Discipline); err != nil {
			return port, err
		}
	}
	_, err = port.Policy.Claim(port.Bandwidth)
	return port, err
}

// queues reads Queue rows in the order of their priorities.
func queues(rows map[int]ovsdb.Queue, d discipline.Name) ([]policy.Queue, error) {
	order := map[int]uint64{}
	for n, row := range rows {
		var err error
		if order[n], err = number(row.OtherConfig, keyPriority, 32); err != nil {
			return nil, fmt.Errorf("queue %d: %w", n, err)
		}
	}
	numbers := slices.SortedFunc(maps.Keys(rows), func(a, b int) int {
		return cmp.Or(cmp.Compare(order[a], order[b]), cmp.Compare(a, b))
	})
	rank := map[uint64]int{} // of each priority, from 0
	for _, n := range numbers {
		if _, known := rank[order[n]]; !known {
			rank[order[n]] = len(rank)
		}
	}
	shared := len(rank) < len(numbers) // some queues have the same
	var list []policy.Queue
	for i, n := range numbers {
		q, err := queue(n, rows[n], d == discipline.LLQ && i == 0)
		if err != nil {
			return nil, fmt.Errorf("queue %d: %w", n, err)
		}
		if d == discipline.PQ {
			q.Min = policy.Amount{} // other tools give each queue one; pq has only the order
			if shared {
				q.Priority = uint8(1 + rank[order[n]])
			}
		}
		list = append(list, q)
	}
	return list, nil
}

func queue(n int, row ovsdb.Queue, strict bool) (policy.Queue, error) {
	if n < 0 || n > classify.MaxOVSQueue {
		return policy.Queue{}, fmt.Errorf("set_queue reaches numbers from 0 to %d only; use a lower one", classify.MaxOVSQueue)
	}
	q := policy.Queue{
		Name:  cmp.Or(row.OtherConfig[keyName], fmt.Sprintf("q%d", n)),
		Match: []classify.Match{{Queue: classify.Given(uint16(n))}},
	}
	low, err := rate(row.OtherConfig, keyMinRate)
	if err != nil {
		return q, err
	}
	if strict {
		q.Rate = policy.Amount{Rate: low}
	} else {
		q.Min = policy.Amount{Rate: low}
	}
	limit, err := number(row.OtherConfig, keyLimitPackets, 32)
	q.LimitPackets = uint32(limit)
	if row.DSCP != nil {
		dscp := uint8(*row.DSCP)
		q.DSCP = &dscp
	}
	return q, err
}

// rate reads bits per second, 0 if there is no such key.
func rate(config map[string]string, key string) (policy.Rate, error) {
	n, err := number(config, key, 64)
	return policy.Rate(n), err
}

func number(config map[string]string, key string, bits int) (uint64, error) {
	text, ok := config[key]
	if !ok {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("other_config:%s %q is no whole number; write digits only", key, text)
	}
	return n, nil
}
