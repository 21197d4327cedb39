// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/face/cli"
	"weir/internal/face/cli/frame"
	"weir/internal/face/managercli"
	"weir/internal/lab/labcli"
	"weir/internal/test/goldentest"
)

// TestCommandReference holds docs/cli.md in step with the commands: the page is
// made from them.
func TestCommandReference(t *testing.T) {
	goldentest.Check(t, "../../../docs/cli.md", commandReference())
}

const referenceHead = `# The command weir

This page is made from the commands themselves (` + "`go test ./internal/face/cli -update`" + `); ` + "`weir COMMAND --help`" + ` says the same.

All rates are egress (upload): what leaves a workload. They are written as ` + "`20mbit`, `1.5gbit`, `800kbit`, `20M` or, as a share of the link, `25%`" + `; ` + "`mbps` and `MB/s`" + ` are refused, because tc reads them as bytes. NAME is a container's name, a prefix of its id, or the name given to ` + "`weir attach`" + `.

Output is also available as JSON or YAML (` + "`-o json`, `-o yaml`" + `), with the names of the [HTTP API](api.md). Commands that change something can be tried with ` + "`--dry-run`" + `. An error is one line on stderr that begins with ` + "`weir: `" + ` and names the field, the value and the remedy.

` + "`--socket PATH`" + ` or the environment variable ` + "`WEIR_SOCKET`" + ` names another socket than ` + "`" + api.DefaultSocket + "`" + `. A user who may not open it and is in group ` + "`weir-view`" + ` looks through ` + "`weir-view.sock`" + ` beside it, which ` + "`weir`" + ` finds by itself; the same holds for the manager's socket. ` + "`NO_COLOR`" + ` takes the colours out of ` + "`weir top`" + `.

` + "`weir lab` and `weir demo` are the program `weir-lab`" + `, which ` + "`weir`" + ` finds beside itself or in PATH and becomes ([decision 37](decisions/0037-two-programs.md)).

## Exit codes

| code | meaning |
|---|---|
`

func commandReference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, c := range frame.ExitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	root := allCommands()
	b.WriteString("\n## Commands\n\n| command | what it does |\n|---|---|\n")
	commands := leaves(root)
	for _, c := range commands {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range commands {
		writeCommand(&b, c)
	}
	return b.String()
}

// allCommands returns weir's commands with those that other programs have for it.
func allCommands() *cobra.Command {
	root := cli.Root()
	cli.Complete(root, labcli.Root(&frame.App{}), managercli.Root(&frame.App{}))
	return root
}

// TestHandedOverCommands: each command that weir hands over is there in the program that it is
// handed to, with the same line in the help, and those programs have no other.
func TestHandedOverCommands(t *testing.T) {
	shown := map[string]string{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if program := frame.ProgramOf(sub); program != "" {
				shown[program+": "+sub.CommandPath()] = sub.Short
			}
			visit(sub)
		}
	}
	visit(cli.Root())
	has := map[string]string{}
	for _, c := range labcli.Root(&frame.App{}).Commands() {
		has["weir-lab: "+c.CommandPath()] = c.Short
	}
	for _, group := range managercli.Root(&frame.App{}).Commands() {
		for _, c := range group.Commands() {
			has["weir-manager: "+c.CommandPath()] = c.Short
		}
	}
	if !maps.Equal(has, shown) {
		t.Errorf("weir hands over\n%v\nand the programs have\n%v", shown, has)
	}
	if missing := cli.Complete(cli.Root(), labcli.Root(&frame.App{}), managercli.Root(&frame.App{})); len(missing) > 0 {
		t.Errorf("no program has %v", missing)
	}
}

// TestNothingIsHidden: every command of weir is in its help and in docs/cli.md.
func TestNothingIsHidden(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Hidden || c.Deprecated != "" {
			t.Errorf("%s is hidden", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(allCommands())
}

// leaves returns the commands that do something, in the order of the help text.
func leaves(c *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, sub := range c.Commands() {
		switch {
		case sub.Name() == "help" || sub.Hidden:
		case sub.HasSubCommands():
			if sub.HasExample() { // it does something itself
				out = append(out, sub)
			}
			out = append(out, leaves(sub)...)
		default:
			out = append(out, sub)
		}
	}
	return out
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n```\n%s\n```\n", c.CommandPath(), text, c.UseLine())
	if len(c.Aliases) > 0 {
		fmt.Fprintf(b, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
	}
	var flags strings.Builder
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			name, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(&flags, "| `%s` | %s |\n", strings.ReplaceAll(strings.TrimSpace(flagName(f)+" "+name), "|", `\|`), strings.ReplaceAll(usage, "|", `\|`))
		}
	})
	if flags.Len() > 0 {
		b.WriteString("\n| flag | meaning |\n|---|---|\n" + flags.String())
	}
	if c.Example != "" {
		b.WriteString("\n```\n")
		for line := range strings.Lines(c.Example) {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
		b.WriteString("\n```\n")
	}
}

// TestKindsInDocs: docs/api.md has a row for each kind of refusal.
func TestKindsInDocs(t *testing.T) {
	const page, begin, end = "../../../docs/api.md", "<!-- kinds: go test ./internal/face/cli -update -->\n", "<!-- /kinds -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no block of kinds", page)
	}
	var table strings.Builder
	table.WriteString("\n| kind | status | exit code | meaning |\n|---|---|---|---|\n")
	for _, r := range refusal.Kinds {
		fmt.Fprintf(&table, "| `%s` | %d | %d | %s |\n", r.Kind, api.StatusOf(r.Kind), frame.RefusalCode(r.Kind), r.Means)
	}
	goldentest.Check(t, page, before+begin+table.String()+"\n"+end+after)
}

func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// TestEveryCommandHelps checks that the help of every command has a sentence, an example
// and, wherever it speaks of rates, both words for the direction.
func TestEveryCommandHelps(t *testing.T) {
	for _, c := range leaves(allCommands()) {
		t.Run(c.Name(), func(t *testing.T) {
			if c.Short == "" || strings.HasSuffix(c.Short, ".") {
				t.Errorf("short help %q", c.Short)
			}
			if c.Example == "" && c.Flags().HasFlags() && c.Name() != "peers" {
				t.Error("no example")
			}
			for _, text := range []string{c.Long, c.Short} {
				if strings.Count(text, "egress") != strings.Count(strings.Join(strings.Fields(text), " "), "egress (upload)")+strings.Count(text, "--egress") {
					t.Errorf("egress without (upload): %q", text)
				}
			}
		})
	}
}
