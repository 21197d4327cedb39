// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
)

// policyFlags are the flags that make a PolicyChange. Values are checked here
// as well as by the agent: a typing error is then found without one.
type policyFlags struct {
	change    api.PolicyChange
	ingress   policy.Change
	queue     string // that --reserve is about
	direction string // that --reserve is about
}

// asked returns the change, once all flags are read.
func (p *policyFlags) asked() (api.PolicyChange, error) {
	c, in := p.change, p.ingress
	about := c.Gives("reserve")
	switch {
	case p.queue != "" && !about:
		return c, frame.Usagef("--queue %s names a queue and says nothing of it; give --reserve, or write what it is, such as '%s: {match: [{udp: 5001}]}'", p.queue, p.queue)
	case p.direction != "" && !about:
		return c, frame.Usagef("--direction is of --reserve; other fields have flags for ingress, such as --ingress-max")
	case p.direction != "" && p.direction != string(policy.Egress) && p.direction != string(policy.Ingress):
		return c, frame.Usagef("--direction %q: write egress (upload) or ingress (download)", p.direction)
	}
	c.ReserveQueue = p.queue
	if p.direction == string(policy.Ingress) {
		in = in.Over(c.Only("reserve"))
		in.ReserveQueue = c.ReserveQueue
		c.Change, c.ReserveQueue = c.Without("reserve"), ""
	}
	if !in.Empty() {
		c.Ingress = &in
	}
	return c, nil
}

// register adds a flag for each field of a workload's policy.
func (p *policyFlags) register(c *cobra.Command) {
	fs := c.Flags()
	p.registerFields(c, policy.OnWorkload)
	fs.StringVar(&p.direction, "direction", "", "`WAY` that --reserve is about: egress (upload, the default) or ingress (download)")
	acceptFlag(c, &p.change.AcceptGaps)
	p.registerFields(c, policy.OnIngress)
	frame.CompleteFlags(c, map[string][]string{"direction": {string(policy.Egress), string(policy.Ingress)}})
}

// registerGroup adds a flag for each field of a group's policy.
func (p *policyFlags) registerGroup(c *cobra.Command) {
	p.registerFields(c, policy.OnGroup)
	acceptFlag(c, &p.change.AcceptGaps)
}

// registerFields adds a flag for each field that may stand in a place.
func (p *policyFlags) registerFields(c *cobra.Command, on policy.Place) {
	for _, f := range policy.Fields(on) {
		name, usage, flag := f.Hyphenated(), f.DocOn(on), fieldFlag{field: f, to: &p.change.Change}
		if f.Form == policy.List {
			usage = "one queue of pq, cbwfq or llq, such as '" + f.Example + "'; again for each, in order; none takes all away; with --reserve, the name of the one that it is about"
			flag.alone = &p.queue
		}
		if on == policy.OnIngress {
			name, flag.to, flag.alone = "ingress-"+name, &p.ingress, nil
			usage, _, _ = strings.Cut(usage, ":")
			usage, _, _ = strings.Cut(usage, ", such as")
			usage = "of what comes to it (download): " + usage
		}
		c.Flags().Var(flag, name, usage)
		if f.Choices != nil {
			frame.CompleteFlags(c, map[string][]string{name: f.Choices})
			continue
		}
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// flagNames lists the flags of the fields that may stand in a place, and more: "--weight,
// --min and --max".
func flagNames(on policy.Place, last string, more ...string) string {
	var names []string
	for _, f := range policy.Fields(on) {
		names = append(names, "--"+f.Hyphenated())
	}
	names = append(names, more...)
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + " " + last + " " + names[n]
}

// registerReset adds the flag that forgets.
func (p *policyFlags) registerReset(c *cobra.Command) {
	c.Flags().BoolVar(&p.change.Reset, "reset", false, "first drop all fields that were set at run time")
}

// acceptFlag adds the flag that accepts settings which the backend does not hold.
func acceptFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "accept-gaps", false, "accept fields that the link's backend does not hold on this kernel; without it, they are refused")
}

// fieldFlag is the flag of one field of a policy.
type fieldFlag struct {
	field policy.Field
	to    *policy.Change
	alone *string // of a list: for a name alone; nil = that is refused
}

var _ pflag.Value = fieldFlag{}

func (f fieldFlag) String() string { return "" }
func (f fieldFlag) Type() string   { return f.field.Value }

// Set reads the value. Each list is added to those given before.
func (f fieldFlag) Set(text string) error {
	text = strings.TrimSpace(text)
	if f.alone != nil && text != f.field.None && policy.CheckQueueName(text) == nil {
		*f.alone = text
		return nil
	}
	if text == "" && f.field.Empty != "" { // what an unset variable leaves behind
		return &invalid.Error{Msg: "empty", Remedy: f.field.Empty}
	}
	var c policy.Change
	if err := c.Put(f.field.Name, text); err != nil {
		return inFlag(err)
	}
	if f.field.Form == policy.List && f.to.Gives(f.field.Name) {
		before := f.to.To().Queues
		f.to.Set(f.field.Name, func(p *policy.Policy) { p.Queues = append(slices.Clone(before), c.To().Queues...) })
		return nil
	}
	f.to.Set(f.field.Name, func(p *policy.Policy) { *p = c.To() })
	return nil
}

// inFlag moves the part of an error's field behind the field's own name into its message,
// because the flag's name takes the field's place.
func inFlag(err error) error {
	var mistake *invalid.Error
	if !errors.As(err, &mistake) {
		return err
	}
	_, inside, ok := strings.Cut(mistake.Field, ".")
	if !ok {
		return err
	}
	named := *mistake
	named.Msg = inside + ": " + mistake.Msg
	return &named
}
