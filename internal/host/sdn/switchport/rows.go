// SPDX-License-Identifier: Apache-2.0

package switchport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/sdn/ovsdb"
)

// Keys in other_config; the first four are Open vSwitch's own.
const (
	keyMaxRate      = "max-rate" // bits per second
	keyMinRate      = "min-rate" // bits per second
	keyPriority     = "priority"
	keyBurst        = "burst" // bits
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
		if limit := queue.Max.Of(p.Bandwidth); limit > 0 {
			row.OtherConfig[keyMaxRate] = strconv.FormatUint(uint64(limit), 10)
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
	if _, err := p.Device(); err != nil {
		return Port{}, err // names the port
	}
	port, err := decode(p)
	if err != nil {
		return Port{}, fmt.Errorf("port %s of bridge %s: %w", p.Name, p.Bridge, err)
	}
	return port, nil
}

func decode(p ovsdb.Port) (Port, error) {
	port := Port{Bridge: p.Bridge, Name: p.Name, Policy: policy.Default()}
	var err error
	if port.Device, err = p.Device(); err != nil {
		return port, err
	}
	if p.QoS.Type != ovsdb.Noop {
		return port, fmt.Errorf("QoS type %q makes Open vSwitch schedule the port itself; set it to %s", p.QoS.Type, ovsdb.Noop)
	}
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
	list, err := queues(p.QoS, port)
	if err != nil {
		return port, err
	}
	if port.Policy.Discipline.HasQueues() { // others find their queues themselves
		port.Policy.Queues = list
	}
	_, err = port.Policy.Sharer(port.Bandwidth)
	return port, inRows(err, port.Policy.Queues)
}

// defaultMin is what Open vSwitch's HTB gives a queue without a min-rate: 1,500 bytes a second.
const defaultMin = policy.Rate(12_000)

// queues reads Queue rows in the order of their priorities. Rows of another tool mean what they
// mean to Open vSwitch: what is in no queue, or in one that is not there, is in queue 0, which
// is always there. In Weir's own the last queue takes that, as in the file.
func queues(row *ovsdb.QoS, port Port) ([]policy.Queue, error) {
	rows := maps.Clone(row.Queues)
	order := map[int]uint64{}
	for n, row := range rows {
		var err error
		if order[n], err = number(row.OtherConfig, keyPriority, 32); err != nil {
			return nil, fmt.Errorf("queue %d: %w", n, err)
		}
	}
	if _, there := rows[0]; !there && !row.Own() {
		rows[0], order[0] = ovsdb.Queue{}, math.MaxUint32+1 // behind those that were asked for
	}
	if d := port.Policy.Discipline; d.HasQueues() && len(rows) > policy.MaxQueues {
		return nil, fmt.Errorf("%d queues, queue 0 among them, which Open vSwitch always has: %d are the most; remove some", len(rows), policy.MaxQueues)
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
		q, err := queue(n, rows[n], port, i == 0)
		if err != nil {
			return nil, fmt.Errorf("queue %d: %w", n, err)
		}
		if port.Policy.Discipline == discipline.PQ && shared {
			q.Priority = uint8(min(1+rank[order[n]], math.MaxUint8))
		}
		if !row.Own() {
			asHTB(&q, n, port.Policy.Discipline.Weighs() && !(port.Policy.Discipline == discipline.LLQ && i == 0))
		}
		list = append(list, q)
	}
	return list, nil
}

// asHTB makes a queue what its row means to Open vSwitch's linux-htb where it says nothing.
func asHTB(q *policy.Queue, n int, weighs bool) {
	if n == 0 {
		q.Match = nil
	}
	if weighs && q.Min.None() {
		q.Min = policy.Amount{Rate: min(defaultMin, cmp.Or(q.Max.Rate, defaultMin))}
	}
}

// queue reads one row; first says that it is the first in order.
func queue(n int, row ovsdb.Queue, port Port, first bool) (policy.Queue, error) {
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
	most, err := rate(row.OtherConfig, keyMaxRate)
	if err != nil {
		return q, err
	}
	if burst := row.OtherConfig[keyBurst]; burst != "" {
		return q, fmt.Errorf("other_config:%s %q: queues of Weir's send no burst above their max-rate; remove it", keyBurst, burst)
	}
	if most >= port.Bandwidth {
		most = 0
	}
	switch d := port.Policy.Discipline; {
	case low > defaultMin && !d.Weighs():
		return q, fmt.Errorf("other_config:%s %d: %s holds no min of a queue; remove it, or use cbwfq or llq", keyMinRate, low, d)
	case most != 0 && !d.HasQueues():
		return q, fmt.Errorf("other_config:%s %d: %s finds its queues itself; remove it, or use pq, cbwfq or llq", keyMaxRate, most, d)
	case d == discipline.LLQ && first && low == 0:
		return q, fmt.Errorf("other_config:%s is missing: llq holds its first queue, by priority, to that rate; give it in bits per second", keyMinRate)
	case d == discipline.LLQ && first:
		q.Rate = policy.Amount{Rate: low}
	case d.Weighs():
		q.Min = policy.Amount{Rate: low}
	}
	q.Max = policy.Amount{Rate: most}
	limit, err := number(row.OtherConfig, keyLimitPackets, 32)
	q.LimitPackets = uint32(limit)
	if row.DSCP != nil {
		dscp := uint8(*row.DSCP)
		q.DSCP = &dscp
	}
	return q, err
}

// columns has what a queue's field is in its row.
var columns = map[string]string{
	"rate": keyMinRate, "min": keyMinRate, "max": keyMaxRate, "limit_packets": keyLimitPackets, "priority": keyPriority,
}

// inRows returns a mistake in a policy as one in the rows that it was read from: "queue 3:
// other_config:max-rate ..." for one of the field queues.q3.max.
func inRows(err error, queues []policy.Queue) error {
	mistake, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return err
	}
	named := *mistake
	if way, ok := strings.CutPrefix(mistake.Field, "queues."); ok {
		cut := max(strings.LastIndexByte(way, '.'), 0) // names of queues have dots
		name, field := way[:cut], strings.TrimPrefix(way[cut:], ".")
		for _, q := range queues {
			if q.Name != name {
				continue
			}
			column := "other_config:" + columns[field]
			if columns[field] == "" {
				column = field
			}
			named.Field = fmt.Sprintf("queue %d: %s", Number(q), column)
		}
	}
	return &named
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
