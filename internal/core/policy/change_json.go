// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/jsonobject"
)

// What JSON calls the parts of a change that are no fields of the table.
const (
	ingressKey      = "ingress"
	reserveQueueKey = "reserve_queue"
)

// MarshalJSON writes the fields that are given, in the table's order.
func (c Change) MarshalJSON() ([]byte, error) {
	var o jsonobject.Object
	for i, f := range fields {
		switch {
		case c.given&(1<<i) == 0:
		case f.Form == Text:
			o.Put(f.Name, f.Write(c.to))
		case f.Form == List && f.AtDefault(c.to):
			o.Put(f.Name, []any{})
		default:
			o.Put(f.Name, f.View(c.to))
		}
	}
	if c.ReserveQueue != "" {
		o.Put(reserveQueueKey, c.ReserveQueue)
	}
	if c.Ingress != nil {
		o.Put(ingressKey, c.Ingress)
	}
	return o.Bytes()
}

// mostFaults are noted of one change: more than there are fields, so that some are left out only of
// names that are not known.
const mostFaults = 64

// UnmarshalJSON reads what MarshalJSON writes. A value that cannot be read, and a field
// that is not known, make no error here: Check and Readable report them, with the field.
func (c *Change) UnmarshalJSON(text []byte) error {
	values, err := jsonobject.Members(text)
	if err != nil {
		return err
	}
	*c = Change{}
	for _, name := range sorted(values) {
		raw := values[name]
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		switch name {
		case ingressKey:
			c.Ingress = &Change{}
			if err := json.Unmarshal(raw, c.Ingress); err != nil {
				return fmt.Errorf("ingress: %w", err)
			}
		case reserveQueueKey:
			if err := json.Unmarshal(raw, &c.ReserveQueue); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		default:
			if len(c.faults) < mostFaults { // the names that are not known come last
				c.putJSON(name, raw)
			}
		}
	}
	return nil
}

// sorted returns the keys in the order of the table, those that are not known last.
func sorted(values map[string]json.RawMessage) []string {
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(uint(row(a)), uint(row(b))), strings.Compare(a, b)) // -1 becomes the largest
	})
}

// putJSON sets one field, or notes why it cannot.
func (c *Change) putJSON(name string, raw json.RawMessage) {
	text := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text = s
	}
	err := c.Put(name, text)
	if strings.TrimSpace(text) == "" {
		err = &invalid.Error{Field: name, Msg: "empty", Remedy: "write a value, or none or default to take it away; leave the field out to keep it"}
		*c = c.Without(name)
	}
	var mistake *invalid.Error
	if errors.As(err, &mistake) {
		c.faults = append(c.faults, mistake)
	}
}

// MarshalJSON writes the policy as the API shows it: rates as a person writes them, ""
// for a default that has no value of its own.
func (p Policy) MarshalJSON() ([]byte, error) { return p.JSON(OnWorkload) }

// JSON does the same as MarshalJSON, with the fields that may stand in a place.
func (p Policy) JSON(on Place) ([]byte, error) {
	var o jsonobject.Object
	for _, f := range Fields(on) {
		if f.Always || !f.AtDefault(p) {
			o.Put(f.Name, f.View(p))
		}
	}
	if p.Ingress != nil && on == OnWorkload {
		o.Put(ingressKey, p.Ingress)
	}
	return o.Bytes()
}

// UnmarshalJSON reads what MarshalJSON writes; fields of a newer version are left out.
func (p *Policy) UnmarshalJSON(text []byte) error {
	values, err := jsonobject.Members(text)
	if err != nil {
		return err
	}
	*p = Policy{}
	for i := range fields {
		raw, ok := values[fields[i].Name]
		if !ok {
			continue
		}
		value := string(raw)
		var s string
		if json.Unmarshal(raw, &s) == nil {
			value = s
		}
		if value == "" { // the default
			continue
		}
		if err := fields[i].read(p, value); err != nil {
			return err
		}
	}
	if raw, ok := values[ingressKey]; ok {
		p.Ingress = &Policy{}
		return json.Unmarshal(raw, p.Ingress)
	}
	return nil
}
