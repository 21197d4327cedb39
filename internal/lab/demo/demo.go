// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"weir/internal/core/invalid"
	"weir/internal/host/dataplane"
	"weir/internal/lab/sandbox"
)

// ChildArg is the program's hidden first argument by which it runs Child
// instead of what it does otherwise.
const ChildArg = "__demo"

// The parts that a child can play.
const (
	partStage = "stage" // the whole demo, on a host of its own
	partSend  = "send"  // a workload
)

// Exit statuses of a child.
const (
	exitBroken = 1 // a promise was not kept
	exitFailed = 2 // it could not be shown to its end; why is on standard error
)

// endsBy bounds the time of the private host to clean up after an interrupt.
const endsBy = 40 * time.Second

// Errors of Run, after what can be said of them has been shown.
var (
	ErrBroken = errors.New("a promise was not kept, see above")
	errFailed = errors.New("the demo failed, see above")
)

// Options of Run.
type Options struct {
	Docker bool          `json:"docker"` // containers, if an engine can be started
	Phase  time.Duration `json:"phase"`  // length of each
	Out    string        `json:"out"`    // folder for the plots
}

func (o Options) check() error {
	if o.Phase < 3*time.Second || o.Phase > time.Hour {
		return &invalid.Error{Field: "--phase", Value: o.Phase.String(), Msg: "too short or too long for a phase", Remedy: "write 3s to 1h"}
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the demo makes network namespaces and qdiscs, which needs root: run it with sudo: %w", dataplane.ErrPrivilege)
	}
	return nil
}

// Run shows the demo on standard output and checks that nothing is left of it.
// The error is ErrBroken if it ran but a promise was not kept.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	ids, err := private(ctx, o)
	if left := ids.traces(); len(left) > 0 {
		return errors.Join(err, fmt.Errorf("something is left of the demo: %s", strings.Join(left, ", ")))
	}
	if err == nil || errors.Is(err, ErrBroken) {
		fmt.Println("  the private host is gone: no process, namespace, device or mount of it is left")
	}
	return err
}

// private shows the demo on a private host and returns what that was known by.
func private(ctx context.Context, o Options) (namespaceIDs, error) {
	question, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	// The private host has a /run, /sys and /proc of its own, so the folder is
	// handed over open.
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder for the plot: %w", err)
	}
	out, err := os.Open(o.Out)
	if err != nil {
		return nil, fmt.Errorf("open the folder for the plot: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ChildArg, partStage, string(question))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{out}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endsBy
	wait, err := sandbox.Start(cmd)
	if err != nil {
		return nil, err
	}
	ids := namespacesOf(cmd.Process.Pid)
	err = wait()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &ended) && ended.ExitCode() == exitBroken:
		err = ErrBroken
	case errors.As(err, &ended):
		err = fmt.Errorf("%w (%w)", errFailed, ended)
	}
	return ids, err
}

// outFolder is the path at which the child finds the folder for the plots.
const outFolder = "/proc/self/fd/3"

// Child plays the part named in args and returns the exit status. main calls it
// when the first argument is ChildArg, before anything else.
func Child(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "weir: "+ChildArg+" is for the demo's own use")
		return exitFailed
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := fmt.Errorf("%s %q: no such part", ChildArg, args[0])
	switch args[0] {
	case partStage:
		err = present(ctx, args[1])
	case partSend:
		err = send(args[1])
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrBroken):
		return exitBroken
	case ctx.Err() == nil:
		fmt.Fprintln(os.Stderr, "weir:", err)
	}
	return exitFailed
}

// present shows the demo; it is the first process of the private host.
func present(ctx context.Context, question string) error {
	var o Options
	if err := json.Unmarshal([]byte(question), &o); err != nil {
		return fmt.Errorf("read the options: %w", err)
	}
	syscall.CloseOnExec(3) // no child may have the folder for the plots
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	show := newScreen(os.Stdout, err == nil, width)
	if err := enterPrivateHost(); err != nil {
		return err
	}
	s := &stage{options: o, show: show, script: script(o.Phase, settle)}
	return errors.Join(s.perform(ctx), s.clear())
}
