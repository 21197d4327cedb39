// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/internal/face/cli/table"
)

// The values of --output.
const (
	Table = "table"
	JSON  = "json"
	YAML  = "yaml"
)

var formats = []string{Table, JSON, YAML}

// Printing gives a command the flag --output and has it checked before the
// command does anything. What it prints in more formats than all do, it prints by itself.
func (a *App) Printing(c *cobra.Command, more ...string) *cobra.Command {
	formats := append(slices.Clone(formats), more...)
	c.Flags().StringVarP(&a.Format, "output", "o", Table, "`FORMAT` to print: "+strings.Join(formats, ", "))
	c.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(formats, a.Format) {
			return Usagef("--output %q: not a format; write %s or %s", a.Format, strings.Join(formats[:len(formats)-1], ", "), formats[len(formats)-1])
		}
		return nil
	}
	// Only fails for a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// Print writes v as JSON or YAML, or the text that people read.
func (a *App) Print(v any, text func() string) error {
	out, err := Encode(a.Format, v, text)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(out)
	return err
}

// Encode returns v as JSON or YAML, or as a table: the text that people read, without characters
// that steer a terminal.
func Encode(format string, v any, text func() string) ([]byte, error) {
	if format == Table {
		// The user who starts a container chooses names and notes.
		return []byte(table.CleanLines(text())), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("output as %s: %w", format, err)
	}
	if format == JSON {
		return b.Bytes(), nil
	}
	// By way of JSON, so that both have the same names and the same values.
	out, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("output as %s: %w", format, err)
	}
	return out, nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
