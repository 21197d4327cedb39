// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"regexp"
	"strings"
)

// Manager is the name of the manager as a sender; no node may have this name.
const Manager = "manager"

// Subject says where a message goes: one of the four letters, a dot, and a node.
type Subject string

// Topic is the letter of a subject.
type Topic string

// The topics.
const (
	Profiles   Topic = "M" // node -> manager
	Heartbeats Topic = "H" // node -> manager
	Reports    Topic = "R" // node -> manager
	Orders     Topic = "L" // manager -> node
)

// Topics lists all topics.
var Topics = []Topic{Profiles, Heartbeats, Reports, Orders}

// Of returns a topic's subject of one node.
func (t Topic) Of(node string) Subject { return Subject(string(t) + "." + node) }

// All returns a topic's subjects of all nodes, for a subscription.
func (t Topic) All() Subject { return Subject(string(t) + ".*") }

// Split is the inverse of Of; ok is false for a text that is no subject of one node.
func (s Subject) Split() (t Topic, node string, ok bool) {
	letter, node, ok := strings.Cut(string(s), ".")
	if !ok || len(letter) != 1 || !strings.Contains("MHRL", letter) || !nodeForm.MatchString(node) {
		return "", "", false
	}
	return Topic(letter), node, true
}

var nodeForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckNode refuses what cannot be a node's name. It is one label of a host name,
// so that it fits into a certificate, a subject and a topic alike.
func CheckNode(name string) error {
	if !nodeForm.MatchString(name) {
		return fmt.Errorf("%.80q cannot be a node's name; use up to 63 small letters, digits and dashes, a letter or digit first and last", name)
	}
	if name == Manager {
		return fmt.Errorf("%q is the manager's own name; choose another for the node", name)
	}
	return nil
}
