// SPDX-License-Identifier: Apache-2.0

package refusal

// Kind is the reason for a refusal, as programs distinguish it. Its text crosses the
// socket and does not change.
type Kind string

// The kinds. Each has a row in Kinds, which says what it means.
const (
	Invalid  Kind = "invalid"
	Unknown  Kind = "unknown"
	Conflict Kind = "conflict"
	NoRoom   Kind = "no_room"
	NotHeld  Kind = "not_held"
	Denied   Kind = "denied"
	TooMany  Kind = "too_many"
	Failed   Kind = "failed"
	Busy     Kind = "busy"
	Timeout  Kind = "timeout"
)

// Row describes one kind.
type Row struct {
	Kind  Kind
	Case  Kind   // the kind that it is a case of, "" if it stands for itself
	Means string // for the documents
}

// Kinds has every kind, a general one before its cases.
var Kinds = []Row{
	{Invalid, "", "a value, a field or the request itself is wrong"},
	{Unknown, "", "nothing has this name"},
	{Conflict, "", "an existing object is in the way: a name that is taken, a device of another workload, a move under way"},
	{NoRoom, Conflict, "a link, a group or a node has no room for the min"},
	{NotHeld, Conflict, "the link's backend does not hold this on this kernel"},
	{Denied, "", "the caller may not do this, or has not shown who it is"},
	{TooMany, "", "the caller has asked too often, or has too much under way"},
	{Failed, "", "it was tried and went wrong; the log says more"},
	{Busy, Failed, "not now: the program is busy, ends, or waits for something else; ask again"},
	{Timeout, Failed, "another node did not answer in time"},
}

// row returns a kind's row.
func (k Kind) row() (Row, bool) {
	for _, r := range Kinds {
		if r.Kind == k {
			return r, true
		}
	}
	return Row{}, false
}

// Known reports whether this version has the kind.
func (k Kind) Known() bool {
	_, known := k.row()
	return known
}

// Is reports whether a kind is another one, or a case of it.
func (k Kind) Is(other Kind) bool {
	for k != other {
		r, _ := k.row()
		if k = r.Case; k == "" {
			return false
		}
	}
	return true
}

// In returns what a table has for a kind, or for the kind that it is a case of.
func In[T any](table map[Kind]T, k Kind) (T, bool) {
	for k != "" {
		if value, ok := table[k]; ok {
			return value, true
		}
		r, _ := k.row()
		k = r.Case
	}
	var none T
	return none, false
}
