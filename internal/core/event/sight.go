// SPDX-License-Identifier: Apache-2.0

package event

import (
	"time"
)

// Sight is what an agent sees of its host at one moment, as far as events follow from it.
type Sight struct {
	At          time.Time
	Objects     []Object
	Links       []LinkSight
	Sources     []SourceSight
	Unwritable  []FolderSight
	ConfigFile  string
	ConfigError string   // the mistake in the file on the disk, "" = none
	RestartDue  []string // settings of the file that the agent takes when it is started again
	NoLink      bool     // there is nothing to steer
	Sinks       []SinkSight
	Reported    map[string][]Condition // by kind: what other parts of the program have found
}

// Report adds what another part of the program than the agent has found, of a kind.
func (s *Sight) Report(kind string, f Condition) {
	if s.Reported == nil {
		s.Reported = map[string][]Condition{}
	}
	s.Reported[kind] = append(s.Reported[kind], f)
}

// Object is a workload or a group.
type Object struct {
	Type, Name string
	Refused    string   // which part of its policy is not in force and why, "" = none
	NotHeld    string   // which part its links' backends do not hold and accept_gaps does not allow, "" = none
	Past       []Past   // what of its traffic does not meet the links
	Quota      Quota    // the zero value = it has none
	Losses     []Losses // by link
}

// Past is a part of a workload's traffic that no link holds.
type Past struct{ Text, Remedy string }

// Quota is how far an object has come with its quota.
type Quota struct {
	Part    float64 // of it that is used, 0 to 1 and more
	Reached bool
	InForce string // what holds because it is reached, such as "a max of 5mbit"; "" = nothing
	Until   time.Time
}

// Losses are the packets of a workload on one link in the last second.
type Losses struct {
	Link, Direction string
	Offered         float64            // packets a second, those that were dropped included
	Dropped         map[string]float64 // packets a second, by reason
}

// LinkSight is one direction of a link.
type LinkSight struct {
	Device, Direction string
	Error             string // why it is not steered, or not as wanted; "" = it is
	Gone              bool   // the error is that there is no such device
	Down              string // why its device sends nothing though it is there, "" = it does
	NotHeld           string // which settings its backend does not hold and accept_gaps does not allow
	Repaired          string // what another program had changed and the agent has set again
}

// SourceSight is a source of workloads.
type SourceSight struct {
	Name string
	Lost bool
	Note string
}

// SinkSight is the webhook or the command.
type SinkSight struct {
	Name, To string
	Error    string // why the last attempt failed, "" = it did not
}

// FolderSight is a folder in which the agent can write nothing.
type FolderSight struct{ Path, Note string }

// over returns how a condition has ended, after the subject's name.
func (s Sight) over(k *Kind, about Subject) string {
	switch {
	case !s.there(about):
		return "is gone"
	case (k.Name == "quota-near" || k.Name == "quota-reached") && !s.quota(about):
		return "has no quota any more"
	case k.Name == "quota-near" && s.object(about).Quota.Reached:
		return "has used up its quota"
	}
	return k.Over
}

// quota reports whether a subject has one.
func (s Sight) quota(about Subject) bool { return !s.object(about).Quota.Until.IsZero() }

// object returns a workload or group, the zero value if it is not there.
func (s Sight) object(about Subject) Object {
	for _, o := range s.Objects {
		if o.Type == about.Type && o.Name == about.Name {
			return o
		}
	}
	return Object{}
}

// there reports whether a sight has what an event is about.
func (s Sight) there(about Subject) bool {
	switch about.Type {
	case Workload, Group:
		return s.object(about).Name != ""
	case Link:
		for _, l := range s.Links {
			if l.Device == about.Name && l.Direction == about.Direction {
				return true
			}
		}
		return false
	}
	return true
}
