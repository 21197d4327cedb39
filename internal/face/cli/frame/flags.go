// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DryRunFlag adds the flag of all commands that change something.
func DryRunFlag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "dry-run", false, "show the changes and make none")
}

// VerdictsFlag adds the flag of all commands that judge expectations.
func VerdictsFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "verdicts", "", "`FILE` to add a JSON line to for each expectation: what was measured, and whether it holds")
}

// LogFlags are the flags of programs that write a log.
type LogFlags struct {
	format  string
	verbose bool
}

// Register adds the flags to a command.
func (f *LogFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.format, "log-format", "text", "`FORMAT` of the log: text or json")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	CompleteFlags(c, map[string][]string{"log-format": {"text", "json"}})
}

// Log returns the logger that the flags ask for.
func (f LogFlags) Log(to io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.verbose {
		opts.Level = slog.LevelDebug
	}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(to, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(to, opts)), nil
	}
	return nil, Usagef("--log-format %q: not a format; write text or json", f.format)
}

// Log returns the logger of commands that have no flags for it.
func (s Streams) Log() *slog.Logger { return slog.New(slog.NewTextHandler(s.Stderr, nil)) }

// CompleteFlags has a shell complete the values of flags.
func CompleteFlags(c *cobra.Command, values map[string][]string) {
	for name, words := range values {
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completionTimeout keeps a shell from hanging on an agent that does not answer.
const completionTimeout = time.Second

// CompleteFirst has a shell complete the first argument by what list returns, each with what
// it is. Without an agent that is nothing, silently: the command will say why.
func CompleteFirst(list func(context.Context) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
		defer cancel()
		found, err := list(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteWorkload offers the names of the workloads there are.
func (a *App) CompleteWorkload(c *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return CompleteFirst(func(ctx context.Context) (found []cobra.Completion, err error) {
		ws, err := a.AgentClient().Workloads(ctx)
		for _, w := range ws {
			found = append(found, cobra.CompletionWithDesc(w.Name, w.Kind+", "+w.State))
		}
		return found, err
	})(c, args, word)
}

// checkFlags refuses a flag that is given an empty text; one that is left out has its
// default.
func checkFlags(c *cobra.Command) error {
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = Usagef("--%s is empty; give a value, or leave the flag out", f.Name)
		}
	})
	return err
}

// Since reads the value of --since, a moment; days and moments without a zone are local.
func Since(text string, now time.Time) (time.Time, error) {
	if text == "all" || text == "" {
		return time.Time{}, nil
	}
	ago := text
	var days int
	if n, err := fmt.Sscanf(text, "%dd", &days); err == nil && n == 1 && fmt.Sprintf("%dd", days) == text {
		ago = fmt.Sprintf("%dh", 24*days)
	}
	if d, err := time.ParseDuration(ago); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	for _, form := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, Usagef("--since %q: not a time; write 1h, 7d, 2026-11-22 or 2026-11-22T20:00:00Z", text)
}
