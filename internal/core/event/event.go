// SPDX-License-Identifier: Apache-2.0

package event

import (
	"time"
)

// The states of an event.
const (
	Begin = "begin"
	End   = "end"
)

// The severities of a kind.
const (
	Notice  = "notice"  // all works as it was asked for, and an operator wants to know
	Warning = "warning" // a part of what was asked for is not so
	Error   = "error"   // workloads are not steered or not seen, or what is set would be lost
)

// The types of what an event is about.
const (
	Workload      = "workload"
	Group         = "group"
	Link          = "link"
	Source        = "source"
	Configuration = "configuration"
	Folder        = "folder"
	Sink          = "sink"
	Address       = "address"
	Certificate   = "certificate"
	Manager       = "manager"
	Clock         = "clock"
	SwitchPort    = "port"
	Device        = "device"
)

// ingress is the direction of what workloads receive.
const ingress = "ingress"

// Subject is what an event is about.
type Subject struct {
	Type string `json:"type" enum:"workload,group,link,source,configuration,folder,sink,address,certificate,manager,clock,port,device" doc:"of what the event is about"`
	Name string `json:"name" doc:"of a workload, group or source, or a link's device, the path of the configuration, the folder or the certificate, or an address, a switch's port, or a device" example:"web"`
	Link string `json:"link,omitempty" doc:"the link of a workload's event that is about one link" example:"eth0"`
	// Direction is that of the link.
	Direction string `json:"direction,omitempty" doc:"of the link: egress or ingress" example:"egress"`
	Reason    string `json:"reason,omitempty" doc:"of the kind drops: why packets are dropped" example:"aqm"`
}

// Event says that a condition begins or ends. It is the JSON of the API, of webhooks and of
// commands.
type Event struct {
	ID       uint64    `json:"id" doc:"counts up on this host, without gaps" example:"41"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind" doc:"what kind of condition" example:"refused"`
	State    string    `json:"state" enum:"begin,end" doc:"each condition has one event when it begins and one when it is over"`
	Severity string    `json:"severity" enum:"notice,warning,error" doc:"notice: all works as it was asked for; warning: a part of what was asked for is not so; error: workloads are not steered or not seen, or what is set would be lost"`
	Subject  Subject   `json:"subject"`
	Text     string    `json:"text" doc:"what has happened, in a sentence" example:"web: min is not in force: asked 60 Mbit/s, free 40 Mbit/s"`
	Remedy   string    `json:"remedy,omitempty" doc:"what to do; not in an end"`
	Began    time.Time `json:"began" doc:"when the condition began; that of the end's begin, too"`
}

// key tells a condition from all others.
type key struct {
	kind  string
	about Subject
}

func (e Event) key() key { return key{e.Kind, e.Subject} }

// Condition is a condition that a look has found.
type Condition struct {
	Subject      Subject
	Text, Remedy string
}
