// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// PortQoS is the QoS row that a port is to have.
type PortQoS struct {
	Port Port   // as it is in a snapshot
	Want *QoS   // a new row; its UUID and those of its queues do not count
	Back string // where Want is nil: UUID of an existing row, "" = none
}

// Replace makes all changes in one transaction. Of the rows that ports had,
// those of Weir's are removed, with the queues in them that are Weir's; so are
// the orphans. It fails, and changes nothing, if a port no longer has the row
// that the snapshot says it has.
func (c *Conn) Replace(ctx context.Context, changes []PortQoS, orphans []QoS) error {
	if len(changes)+len(orphans) == 0 {
		return nil
	}
	ops := []any{database}
	for i, change := range changes {
		ops = append(ops, replaceOne(fmt.Sprintf("weir%d", i), change)...)
	}
	for i := range orphans {
		ops = append(ops, remove(&orphans[i])...)
	}
	return c.transact(ctx, ops)
}

// errRace is the answer where a wait does not hold.
var errRace = errors.New("another program has changed a port's QoS meanwhile; no change was made, try again")

// transact has the database do all operations or none; the first is its name.
func (c *Conn) transact(ctx context.Context, ops []any) error {
	text, err := c.session.call(ctx, "transact", nil, ops...)
	if err != nil {
		return c.failed(err)
	}
	var results []*refusal // null for an operation after a failed one; one more for the commit
	if err := json.Unmarshal(text, &results); err != nil {
		return c.failed(fmt.Errorf("answer to a transaction: %w", err))
	}
	for _, r := range results {
		switch {
		case r == nil || r.Name == "":
		case r.Name == "timed out":
			return c.failed(errRace)
		default:
			return c.failed(r)
		}
	}
	if len(results) < len(ops)-1 {
		return c.failed(fmt.Errorf("%d answers to %d operations", len(results), len(ops)-1))
	}
	return nil
}

// operation is one of a transaction.
type operation map[string]any

// on returns an operation on the row with a UUID.
func on(op, table, id string) operation {
	return operation{"op": op, "table": table, "where": []any{[]any{"_uuid", "==", row(id)}}}
}

// replaceOne returns one change as operations; the names of new rows begin with name.
func replaceOne(name string, change PortQoS) []any {
	was, is := atMostOne(), atMostOne()
	if q := change.Port.QoS; q != nil {
		was = atMostOne(row(q.UUID))
	}
	if change.Back != "" {
		is = atMostOne(row(change.Back))
	}
	unchanged := on("wait", "Port", change.Port.UUID)
	unchanged["timeout"] = 0 // do not wait for it to become so
	unchanged["until"] = "=="
	unchanged["columns"] = []string{"qos"}
	unchanged["rows"] = []any{map[string]any{"qos": was}}
	ops := []any{unchanged}
	if change.Want != nil {
		ops = append(ops, change.Want.inserts(name)...)
		is = atMostOne(newRow(name))
	}
	update := on("update", "Port", change.Port.UUID)
	update["row"] = map[string]any{"qos": is}
	return append(append(ops, update), remove(change.Port.QoS)...)
}

// inserts returns the operations that make the QoS: its queues, and itself, which is called name.
func (q *QoS) inserts(name string) []any {
	var ops []any
	queues := map[int]any{}
	for _, n := range slices.Sorted(maps.Keys(q.Queues)) {
		queue, id := q.Queues[n], fmt.Sprintf("%squeue%d", name, n)
		values := map[string]any{"other_config": writeMap(queue.OtherConfig), "external_ids": writeMap(queue.ExternalIDs)}
		if queue.DSCP != nil {
			values["dscp"] = *queue.DSCP
		}
		ops = append(ops, operation{"op": "insert", "table": "Queue", "uuid-name": id, "row": values})
		queues[n] = newRow(id)
	}
	return append(ops, operation{"op": "insert", "table": "QoS", "uuid-name": name, "row": map[string]any{
		"type": q.Type, "other_config": writeMap(q.OtherConfig), "external_ids": writeMap(q.ExternalIDs), "queues": writeMap(queues)}})
}

// remove deletes a row of Weir's and its queues; of another's, nothing.
func remove(q *QoS) []any {
	if !q.Own() {
		return nil
	}
	ops := []any{on("delete", "QoS", q.UUID)}
	for _, n := range slices.Sorted(maps.Keys(q.Queues)) {
		if q.Queues[n].ExternalIDs[Owner] != "" {
			ops = append(ops, on("delete", "Queue", q.Queues[n].UUID))
		}
	}
	return ops
}
