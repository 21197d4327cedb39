// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/closest"
	"weir/internal/core/invalid"
	"weir/internal/core/refusal"
)

// The exit codes; they are part of the interface and do not change.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitNoAgent      = 3
	ExitNotPermitted = 4
	ExitRefused      = 5
	ExitUnknown      = 6
)

// ExitCodes says what each means, for the docs.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{ExitOK, "done"},
	{ExitFailed, "failed; `weir lab run`: an expectation does not hold; `weir doctor`: a check fails"},
	{ExitUsage, "the command line, a value in it or a file that it names is wrong"},
	{ExitNoAgent, "no agent, or no manager, runs at the socket; `weir lab run`: a scenario cannot be run here; `weir agent`, `weir lab run`: `--backend bpf`, and this kernel has no BPF qdiscs; `weir lab`, `weir demo`: weir-lab is not installed"},
	{ExitNotPermitted, "not permitted: not in group weir (to look: nor in weir-view), or not root"},
	{ExitRefused, "refused: the link cannot hold the mins, its backend does not hold what was asked for on this kernel, the name or the device belongs to another workload, or a node has no room"},
	{ExitUnknown, "no workload, node, container or move has that name"},
}

// usageError is a command line that cannot be understood.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usagef returns the error of a command line that is wrong; weir ends with exit code 2.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// codeError ends weir with a code that was decided elsewhere. err may be nil:
// then what had to be said has been said.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *codeError) Unwrap() error { return e.err }

// Exit returns an error that ends weir with an exit code of the caller's choice; code 0
// without an error is no error. err may be nil: then the caller has printed the reason.
func Exit(code int, err error) error {
	if err == nil && code == ExitOK {
		return nil
	}
	return &codeError{code, err}
}

// exitCode returns the exit code of an error, for scripts.
func (a *App) exitCode(err error) int {
	var (
		usage  *usageError
		code   *codeError
		value  *invalid.Error
		file   *config.Error
		unread *config.FileError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitFailed
	case errors.As(err, &code):
		return code.code
	case errors.As(err, &usage), errors.As(err, &value), errors.As(err, &file):
		return ExitUsage
	case errors.Is(err, api.ErrNoAgent), errors.Is(err, api.ErrNoManager):
		return ExitNoAgent
	case errors.Is(err, api.ErrNotPermitted), errors.Is(err, fs.ErrPermission):
		return ExitNotPermitted
	case refusal.Of(err) != nil:
		return RefusalCode(refusal.KindOf(err))
	case errors.As(err, &unread):
		return ExitUsage
	}
	for own, code := range a.Codes {
		if errors.Is(err, own) {
			return code
		}
	}
	return ExitFailed
}

// refusalCodes are the exit codes of the kinds of a refusal; a kind that is missing here
// has that of the kind that it is a case of.
var refusalCodes = map[refusal.Kind]int{
	refusal.Invalid:  ExitUsage,
	refusal.Unknown:  ExitUnknown,
	refusal.Conflict: ExitRefused,
	refusal.Denied:   ExitNotPermitted,
	refusal.TooMany:  ExitFailed,
	refusal.Failed:   ExitFailed,
}

// RefusalCode returns the exit code of a kind of refusal.
func RefusalCode(k refusal.Kind) int {
	if code, ok := refusal.In(refusalCodes, k); ok {
		return code
	}
	return ExitFailed
}

// FlagOf has the flags by which fields of weir.yaml are given on the command line. A
// refusal names the field, and the line that is printed names the flag.
var FlagOf = map[string]string{
	"backend":           "--backend",
	"cluster.token":     "--token",
	"link.device":       "--link",
	"link.egress":       "--egress",
	"link.ingress":      "--ingress",
	"link.scheduler":    "--scheduler",
	"manager.listen":    "--listen",
	"manager.state_dir": "--state-dir",
	"metrics.listen":    "--metrics",
}

// ErrorLines returns the text of an error: one line for each mistake, with its remedy.
func (a *App) ErrorLines(err error) []string {
	var (
		code    *codeError
		refused = refusal.Of(err)
	)
	switch {
	case err == nil, errors.As(err, &code) && code.err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return []string{"interrupted"}
	case errors.Is(err, api.ErrNoAgent):
		return []string{err.Error() + "; start it with: systemctl start weir (or: weir agent --link eth0 --egress 100mbit)"}
	case errors.Is(err, api.ErrNoManager):
		return []string{err.Error() + "; run this on the manager's host, or start one with: systemctl start weir-manager (or: weir manager serve)"}
	case errors.Is(err, api.ErrNotPermitted):
		return []string{err.Error() + ": " + socketRemedy(a.Socket)}
	case refused != nil:
		return []string{refusalLine(refused)}
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.TrimPrefix(line, "weir: "))
		}
	}
	return lines
}

// refusalLine returns a refusal in one line: field, value, mistake and remedy.
func refusalLine(e *refusal.Error) string {
	head := cmp.Or(FlagOf[e.Field], e.Field)
	if e.Value != "" && !strings.Contains(e.Msg, e.Value) {
		head = strings.TrimSpace(head + fmt.Sprintf(" %q", e.Value))
	}
	line := e.Msg
	if head != "" {
		line = head + ": " + line
	}
	if e.Remedy != "" {
		line += "; " + e.Remedy
	}
	return strings.Join(strings.Fields(line), " ")
}

// flagError returns pflag's error about a flag in Weir's words.
func flagError(c *cobra.Command, err error) error {
	var (
		unknown  *pflag.NotExistError
		bad      *pflag.InvalidValueError
		required *pflag.ValueRequiredError
		value    *invalid.Error
	)
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		return unknownFlag(c, unknown.GetSpecifiedName())
	case errors.As(err, &bad) && errors.As(err, &value):
		return Usagef("%v", invalid.InField("--"+bad.GetFlag().Name, value))
	case errors.As(err, &bad):
		f := bad.GetFlag()
		remedy := strings.ReplaceAll(f.Usage, "`", "")
		if f.Value.Type() == "bool" {
			remedy = "write --" + f.Name + " alone, or --" + f.Name + "=false"
		}
		return Usagef("--%s %q: %s; %s", f.Name, bad.GetValue(), notANumber(bad.GetValue(), typeName(f)), remedy)
	case errors.As(err, &required):
		return Usagef("--%s: its value is missing", required.GetSpecifiedName())
	}
	return Usagef("%v; see --help", err)
}

func unknownFlag(c *cobra.Command, name string) error {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	remedy := "see " + c.CommandPath() + " --help"
	if near := closest.Words(name, known, 2); len(near) > 0 {
		remedy = "did you mean --" + strings.Join(near, " or --") + "?"
	}
	return Usagef("unknown flag --%s; %s", name, remedy)
}

// notANumber returns why a text is no value of a type: it is no number, or the number is
// too small or too large.
func notANumber(text, kind string) string {
	if _, whole := new(big.Int).SetString(strings.TrimSpace(text), 0); whole && strings.HasSuffix(kind, "number") {
		return "out of range"
	}
	return "not a " + kind
}

// typeName returns a flag's type in plain words.
func typeName(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "uint16", "uint32", "uint64", "int":
		return "whole number"
	case "float64":
		return "number"
	case "duration":
		return "duration such as 10s"
	case "bool":
		return "truth value"
	}
	return f.Value.Type()
}
