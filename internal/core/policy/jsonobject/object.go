// SPDX-License-Identifier: Apache-2.0

// Package jsonobject writes JSON objects whose members have an order, and reads those whose
// members are read one by one.
package jsonobject

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weir/internal/core/bound"
)

// Object is a JSON object in the order of its puts.
type Object struct {
	members []string
	err     error
}

// Put appends a member.
func (o *Object) Put(name string, value any) {
	text, err := json.Marshal(value)
	o.err = errors.Join(o.err, err)
	o.members = append(o.members, fmt.Sprintf("%q:%s", name, text))
}

// Bytes returns the object's text.
func (o *Object) Bytes() ([]byte, error) {
	return []byte("{" + strings.Join(o.members, ",") + "}"), o.err
}

// Members returns the members of an object, each as a text. It refuses objects that are deeper
// than bound.BodyLevels: a caller that has a member read by Members again takes time and memory
// for each level.
func Members(text []byte) (values map[string]json.RawMessage, err error) {
	if err := bound.JSON("", text, bound.BodyLevels); err != nil {
		return nil, err
	}
	err = json.Unmarshal(text, &values)
	return values, err
}
