// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/notify"
)

func (a commands) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Look at a configuration file",
		Args:  frame.Names(),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.configCheckCommand())
	return c
}

func (a commands) configCheckCommand() *cobra.Command {
	return a.Printing(&cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration file, without an agent",
		Long: `Read FILE (default ` + config.DefaultPath + `) as an agent without --link would, and list all
its mistakes, each with its line. An entry that is right but will not hold as it stands is a remark: mins
that do not fit beside each other if all workloads and groups run that the file calls by
their whole name, rules that overlap, files that an agent of root refuses where they are,
since other users may change them there, devices, secrets and programs that this host has not.
Nothing is changed and no agent is needed; on another host than the file's, the last kind
does not count.`,
		Example: `  weir config check
  weir config check ./weir.yaml && cp weir.yaml /etc/weir/`,
		Args: frame.Names("[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			file, read := config.DefaultPath, config.Load
			if len(args) > 0 {
				file, read = args[0], config.Inspect
			}
			c, err := read(file)
			if err == nil && reflect.DeepEqual(c.Manager, config.DefaultManager()) { // a manager steers no link
				err = c.Linkless()
			}
			if err != nil {
				return err
			}
			r := checked(c)
			return a.Print(r, func() string { return r.text() })
		},
	})
}

// configCheck is the answer of weir config check about a file without mistakes.
type configCheck struct {
	File      string   `json:"file"`
	Links     []string `json:"links"`     // devices
	Workloads []string `json:"workloads"` // by whole name
	Patterns  []string `json:"patterns"`
	Groups    []string `json:"groups"`
	Remarks   []string `json:"remarks"`
}

func checked(c config.Config) configCheck {
	r := configCheck{File: c.Path, Links: []string{}, Workloads: append([]string{}, c.Named()...), Patterns: []string{}, Groups: []string{}, Remarks: []string{}}
	for _, l := range c.Links {
		r.Links = append(r.Links, l.Device)
		if _, err := net.InterfaceByName(l.Device); err != nil {
			r.Remarks = append(r.Remarks, fmt.Sprintf("link %s: this host has no such device now; an agent waits for it", l.Device))
		}
	}
	for _, rule := range c.Workloads {
		if strings.ContainsAny(rule.Pattern, "*?[") {
			r.Patterns = append(r.Patterns, rule.Pattern)
		}
	}
	for _, g := range c.Groups {
		r.Groups = append(r.Groups, g.Name)
	}
	r.Remarks = append(r.Remarks, c.Warnings...)
	for _, refused := range c.Refused() {
		r.Remarks = append(r.Remarks, refused.Fault()+"; "+refused.Why.Remedy())
	}
	r.Remarks = append(r.Remarks, notify.Foresee(c.Tell)...)
	r.Remarks = append(r.Remarks, decide.Foresee(c, time.Now())...)
	return r
}

func (r configCheck) text() string {
	t := table.New("FILE", "LINKS", ">WORKLOADS", ">PATTERNS", ">GROUPS")
	t.Add(r.File, strings.Join(r.Links, " "), fmt.Sprint(len(r.Workloads)), fmt.Sprint(len(r.Patterns)), fmt.Sprint(len(r.Groups)))
	var b strings.Builder
	b.WriteString(t.String())
	switch len(r.Remarks) {
	case 0:
		b.WriteString("\nno mistake\n")
	default:
		fmt.Fprintf(&b, "\nno mistake; %d to know:\n", len(r.Remarks))
	}
	for _, remark := range r.Remarks {
		b.WriteString("  " + remark + "\n")
	}
	return b.String()
}
