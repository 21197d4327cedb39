// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/face/cli/frame"
)

// edition is what all pages have in their head and foot.
type edition struct {
	version string
	date    time.Time
}

// page is one manual page, in the language of man(7).
type page struct{ name, section, text string }

// tree returns the page of a command and those of all below it, but for the commands of the
// root that are named in without.
func (e edition) tree(c *cobra.Command) []page {
	return append([]page{e.command(c)}, e.below(c)...)
}

// below returns the pages of the commands below one, but for those that another program has.
func (e edition) below(c *cobra.Command) (pages []page) {
	for _, sub := range c.Commands() {
		if frame.ProgramOf(sub) == "" && sub.Name() != "help" {
			pages = append(pages, e.tree(sub)...)
		}
	}
	return pages
}

// command returns the page of one command of weir.
func (e edition) command(c *cobra.Command) page {
	w := e.begin(pageName(c), "1", c.Short)
	w.heading("SYNOPSIS")
	w.literal(synopsis(c))
	w.heading("DESCRIPTION")
	w.prose(orElse(c.Long, c.Short+"."))
	if len(c.Aliases) > 0 {
		w.prose("Also: " + strings.Join(c.Aliases, ", ") + ".")
	}
	w.commands(c)
	w.options("OPTIONS", c.LocalNonPersistentFlags())
	w.options("COMMON OPTIONS", allOf(c.PersistentFlags(), c.InheritedFlags()))
	if c.Example != "" {
		w.heading("EXAMPLES")
		w.literal(strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	if c.HasParent() {
		w.heading("EXIT STATUS")
		w.prose("weir(1) lists the exit codes.")
	} else {
		w.exitCodes()
		w.files()
	}
	w.seeAlso(related(c))
	return w.page()
}

// flags returns the page of a program that has flags only.
func (e edition) flags(name, usage, about string, flags *pflag.FlagSet) page {
	short, rest, _ := strings.Cut(about, "\n")
	w := e.begin(name, "1", strings.TrimSuffix(short, "."))
	w.heading("SYNOPSIS")
	w.literal(usage)
	w.heading("DESCRIPTION")
	w.prose(orElse(strings.Trim(rest, "\n"), short))
	w.options("OPTIONS", flags)
	w.seeAlso([]string{"weir"})
	return w.page()
}

// configuration returns weir.yaml(5): the example, whose comments explain every key.
func (e edition) configuration(file string) (page, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return page{}, err
	}
	w := e.begin("weir.yaml", "5", "what Weir steers and what it promises")
	w.heading("DESCRIPTION")
	w.prose(fmt.Sprintf("weir(1) reads %s. This is the example that is installed there; its comments have every key, with its default. weir config check FILE says all that is wrong with a file.", config.DefaultPath))
	w.literal(string(text))
	w.seeAlso([]string{"weir", "weir-agent", "weir-config-check", "weir-set"})
	return w.page(), nil
}

// related returns the names of the pages of a command's parent and of its siblings.
func related(c *cobra.Command) (names []string) {
	if !c.HasParent() {
		return []string{"weir.yaml", "tc"}
	}
	names = append(names, pageName(c.Parent()))
	for _, sibling := range c.Parent().Commands() {
		if sibling != c && sibling.GroupID == c.GroupID && sibling.Name() != "help" {
			names = append(names, pageName(sibling))
		}
	}
	return names
}

// synopsis returns the form of a command line.
func synopsis(c *cobra.Command) string {
	if c.HasSubCommands() && !c.HasExample() || !c.HasParent() {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

// pageName returns "weir-set" for the command "weir set".
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func allOf(sets ...*pflag.FlagSet) *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, s := range sets {
		all.AddFlagSet(s)
	}
	return all
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// commands lists the commands below one, by the groups of the help text.
func (w *writer) commands(c *cobra.Command) {
	subs := slices.DeleteFunc(slices.Clone(c.Commands()), func(s *cobra.Command) bool { return s.Name() == "help" })
	if len(subs) == 0 {
		return
	}
	w.heading("COMMANDS")
	list := func(group string) {
		for _, s := range subs {
			if s.GroupID == group {
				w.item(pageName(s)+"(1)", s.Short)
			}
		}
	}
	list("")
	for _, g := range c.Groups() {
		w.subheading(strings.TrimSuffix(g.Title, ":"))
		list(g.ID)
	}
}

func (w *writer) options(title string, flags *pflag.FlagSet) {
	begun := false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if !begun {
			w.heading(title)
			begun = true
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		w.item(strings.TrimSpace(name+" "+value), usage)
	})
}

func (w *writer) exitCodes() {
	w.heading("EXIT STATUS")
	for _, c := range frame.ExitCodes {
		w.item(fmt.Sprint(c.Code), c.Meaning)
	}
}

func (w *writer) files() {
	w.heading("FILES")
	w.item(config.DefaultPath, "the configuration, see weir.yaml(5)")
	w.item("/usr/share/doc/weir/docs", "the pages that help texts call docs/NAME.md")
	w.item(api.DefaultSocket, "the agent's socket, for group weir; weir-view.sock beside it is for group weir-view")
	w.item(config.Default().StateDir, "what was set at run time, and what the devices had before")
}
