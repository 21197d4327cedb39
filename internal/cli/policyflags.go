// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/policy"
)

// policyFlags are the flags that make a PolicyChange. Values are checked here
// as well as by the agent: a typing error is then found without one.
type policyFlags struct {
	change    api.PolicyChange
	queue     string // that --reserve is about
	direction string // that --reserve is about
}

// asked is the change, once all flags are read.
func (p *policyFlags) asked() (api.PolicyChange, error) {
	c := p.change
	about := c.Reserve != nil
	switch {
	case p.queue != "" && !about:
		return c, usagef("--queue %s names a queue and says nothing of it; give --reserve, or write what it is, such as '%s: {match: [{udp: 5001}]}'", p.queue, p.queue)
	case p.direction != "" && !about:
		return c, usagef("--direction is of --reserve; other fields have flags for ingress, such as --ingress-max")
	case p.direction != "" && p.direction != string(policy.Egress) && p.direction != string(policy.Ingress):
		return c, usagef("--direction %q: write egress (upload) or ingress (download)", p.direction)
	}
	if p.queue != "" {
		c.ReserveQueue = &p.queue
	}
	if p.direction == string(policy.Ingress) {
		in := *c.Ingress
		in.Reserve, in.ReserveQueue = c.Reserve, c.ReserveQueue
		c.Reserve, c.ReserveQueue, c.Ingress = nil, nil, &in
	}
	return c, nil
}

func (p *policyFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.Var(weightFlag{&p.change.Weight}, "weight", "how much it counts beside others, 1 to "+strconv.Itoa(policy.MaxWeight))
	fs.Var(amountFlag{&p.change.Min}, "min", "rate it always gets when it wants it: 20mbit, 25%, or none")
	fs.Var(amountFlag{&p.change.Max}, "max", "rate it never exceeds: 20mbit, 25%, or none")
	fs.Var(amountFlag{&p.change.Reserve}, "reserve", "goodput that a controller holds, payload alone: 10mbit, or none")
	fs.Var(countFlag[uint32]{&p.change.LimitPackets}, "limit-packets", "how many packets may wait, 0 for the default")
	fs.Var(countFlag[uint64]{&p.change.LimitBytes}, "limit-bytes", "how many bytes may wait, 0 for the default")
	fs.Var(disciplineFlag{&p.change.Discipline}, "discipline", "which of its own packets goes first: "+strings.Join(policy.Disciplines(), ", "))
	fs.StringVar(&p.direction, "direction", "", "`WAY` that --reserve is about: egress (upload, the default) or ingress (download)")
	fs.Var(queueFlag{&p.change.Queues, &p.queue}, "queue", "one queue of pq, cbwfq or llq, such as 'voice: {rate: 1mbit, match: [{udp: 5001}]}'; again for each, in order; none takes all away; with --reserve, the name of the one that it is about")
	fs.Var(aqmFlag{&p.change.AQM}, "aqm", "CoDel's target and interval: 5ms/100ms, on, off, or default")
	fs.Var(dscpFlag{&p.change.DSCP}, "dscp", "code point written into its packets: ef, 46, or none")
	fs.Var(groupFlag{&p.change.Group}, "group", "group that it is in, see weir group set; or none")
	acceptFlag(c, &p.change.AcceptGaps)
	p.registerIngress(c)
	for _, name := range []string{"weight", "min", "max", "reserve", "limit-packets", "limit-bytes", "queue", "aqm", "dscp", "group"} {
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	completeFlags(c, map[string][]string{"discipline": policy.Disciplines(), "direction": {string(policy.Egress), string(policy.Ingress)}})
}

// registerIngress registers those about what comes to the workload.
func (p *policyFlags) registerIngress(c *cobra.Command) {
	p.change.Ingress = &api.PolicyChange{} // which says nothing
	in := p.change.Ingress
	fs := c.Flags()
	for _, f := range []struct {
		name  string
		value pflag.Value
		usage string
	}{
		{"weight", weightFlag{&in.Weight}, "how much it counts beside others"},
		{"min", amountFlag{&in.Min}, "rate that it always receives when it is sent as much"},
		{"max", amountFlag{&in.Max}, "rate that it never receives more than"},
		{"reserve", amountFlag{&in.Reserve}, "goodput that a controller holds"},
		{"limit-packets", countFlag[uint32]{&in.LimitPackets}, "how many packets may wait"},
		{"limit-bytes", countFlag[uint64]{&in.LimitBytes}, "how many bytes may wait"},
		{"discipline", disciplineFlag{&in.Discipline}, "which of its packets goes first"},
		{"queue", queueFlag{&in.Queues, nil}, "one queue; again for each"},
		{"aqm", aqmFlag{&in.AQM}, "CoDel's target and interval"},
		{"dscp", dscpFlag{&in.DSCP}, "code point written into its packets"},
	} {
		name := "ingress-" + f.name
		fs.Var(f.value, name, "of what comes to it (download): "+f.usage)
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// registerReset adds the flag that forgets.
func (p *policyFlags) registerReset(c *cobra.Command) {
	c.Flags().BoolVar(&p.change.Reset, "reset", false, "forget what was set at run time before anything else")
}

// acceptFlag adds the flag that takes what the backend does not hold.
func acceptFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "accept-gaps", false, "take what the link's backend does not hold on this kernel; without it, that is refused")
}

// registerGroup registers those that a group has.
func (p *policyFlags) registerGroup(c *cobra.Command) {
	fs := c.Flags()
	fs.Var(weightFlag{&p.change.Weight}, "weight", "how much the group counts beside others, 1 to "+strconv.Itoa(policy.MaxWeight))
	fs.Var(amountFlag{&p.change.Min}, "min", "rate its members always get together: 20mbit, 25%, or none")
	fs.Var(amountFlag{&p.change.Max}, "max", "rate its members never exceed together: 20mbit, 25%, or none")
	acceptFlag(c, &p.change.AcceptGaps)
	for _, name := range []string{"weight", "min", "max"} {
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

type weightFlag struct{ to **uint32 }

func (f weightFlag) String() string { return "" }
func (f weightFlag) Type() string   { return "N" }
func (f weightFlag) Set(s string) error {
	w, err := policy.ParseWeight(s)
	if err == nil {
		*f.to = &w
	}
	return err
}

// errEmptyAmount is not the same as none: it is what an unset variable leaves behind.
var errEmptyAmount = &policy.Error{Msg: "empty", Remedy: "write a rate such as 20mbit, a share such as 25%, or none"}

// amountFlag keeps the text, since a percentage means something only to the
// agent, which knows the links.
type amountFlag struct{ to **string }

func (f amountFlag) String() string { return "" }
func (f amountFlag) Type() string   { return "RATE|none" }
func (f amountFlag) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return errEmptyAmount
	}
	amount, err := policy.ParseAmount(s)
	if err != nil {
		return err
	}
	text := amount.Compact()
	if amount.None() {
		text = "none"
	}
	*f.to = &text
	return nil
}

type countFlag[T uint32 | uint64] struct{ to **T }

func (f countFlag[T]) String() string { return "" }
func (f countFlag[T]) Type() string   { return "N" }
func (f countFlag[T]) Set(s string) error {
	bits := 64
	if _, small := any(T(0)).(uint32); small {
		bits = 32
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, bits)
	if err != nil {
		return &policy.Error{Value: s, Msg: notANumber(s, "whole number"), Remedy: fmt.Sprintf("write how many may wait, at most %d, or 0 for the default", ^T(0))}
	}
	v := T(n)
	*f.to = &v
	return nil
}

type disciplineFlag struct{ to **string }

func (f disciplineFlag) String() string { return "" }
func (f disciplineFlag) Type() string   { return "NAME" }
func (f disciplineFlag) Set(s string) error {
	d, err := policy.ParseDiscipline(s)
	if err == nil {
		*f.to = new(string(d))
	}
	return err
}

// queueFlag adds what is given to the queues given before.
type queueFlag struct {
	to   **[]api.Queue
	name *string // for a name alone; nil = that is refused
}

func (f queueFlag) String() string { return "" }
func (f queueFlag) Type() string   { return "QUEUE|none" }
func (f queueFlag) Set(s string) error {
	if name := strings.TrimSpace(s); f.name != nil && name != "none" && policy.CheckQueueName(name) == nil {
		*f.name = name
		return nil
	}
	queues, err := config.ParseQueues(s)
	var mistake *policy.Error
	if errors.As(err, &mistake) {
		if _, inside, ok := strings.Cut(mistake.Field, "."); ok { // the flag's name takes the field's place
			named := *mistake
			named.Msg = inside + ": " + mistake.Msg
			err = &named
		}
		return err
	}
	if *f.to == nil {
		*f.to = &[]api.Queue{}
	}
	**f.to = append(**f.to, api.QueuesOf(queues)...)
	return nil
}

type aqmFlag struct{ to **string }

func (f aqmFlag) String() string { return "" }
func (f aqmFlag) Type() string   { return "TARGET/INTERVAL" }
func (f aqmFlag) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return &policy.Error{Msg: "empty", Remedy: "write TARGET/INTERVAL such as 5ms/100ms, or on, off or default"}
	}
	aqm, err := policy.ParseAQM(s)
	if err == nil {
		*f.to = new(cmp.Or(aqm.Compact(), "default"))
	}
	return err
}

type dscpFlag struct{ to **string }

func (f dscpFlag) String() string { return "" }
func (f dscpFlag) Type() string   { return "DSCP|none" }
func (f dscpFlag) Set(s string) error {
	if strings.TrimSpace(s) == "" {
		return &policy.Error{Msg: "empty", Remedy: "write a name such as ef, a number from 0 to 63, or none"}
	}
	dscp, err := config.ParseMarking(s)
	if err != nil {
		return err
	}
	*f.to = new("none")
	if dscp != nil {
		*f.to = new(policy.DSCPName(*dscp))
	}
	return nil
}

type groupFlag struct{ to **string }

func (f groupFlag) String() string { return "" }
func (f groupFlag) Type() string   { return "GROUP|none" }
func (f groupFlag) Set(s string) error {
	if s = strings.TrimSpace(s); s != "none" {
		if err := policy.CheckGroupName(s); err != nil {
			return err
		}
	}
	*f.to = &s
	return nil
}

var (
	_ pflag.Value = weightFlag{}
	_ pflag.Value = amountFlag{}
	_ pflag.Value = countFlag[uint32]{}
	_ pflag.Value = disciplineFlag{}
	_ pflag.Value = queueFlag{}
	_ pflag.Value = aqmFlag{}
	_ pflag.Value = dscpFlag{}
	_ pflag.Value = groupFlag{}
)
