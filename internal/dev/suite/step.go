// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// step is one command that passes or fails.
type step struct {
	Name    string // unique, such as vm/qdisc-7.3; its log has the same name
	Command []string
	Env     []string // beside this process's own
	// Place is where its Go tests run, one of places; "" = the command has no tests, and
	// its exit status is the verdict.
	Place string
	// Binary says that the command prints what a test binary of this package prints, with
	// -test.v=test2json; "" = it prints what go test -json does.
	Binary string
	Builds []string // packages whose test binaries the command needs, below internal/
	Arch   string   // their processor, as Go calls it; "" = this machine's
	// Peer says that exit status 1, an expectation that does not hold, is a result like any
	// other: the scheduler that was measured is not Weir's.
	Peer   bool
	Note   string // said in the summary, such as a seed
	Inputs inputs // what its result depends on
	// Alone keeps all other steps away but those that are idle: it measures rates or times by
	// this machine's clock.
	Alone bool
	// Idle says that the command takes of this machine what nothing else wants (idleGroup), and
	// that its result does not depend on how much that is.
	Idle bool
}

// result is the result of a step; the resumable runs keep it as JSON.
type result struct {
	Name     string    `json:"name"`
	Command  string    `json:"command"`
	Note     string    `json:"note,omitempty"`
	Passed   bool      `json:"passed"`
	Seconds  float64   `json:"seconds"`
	Ran      int       `json:"tests_passed"`
	Skips    []skip    `json:"skips,omitempty"`
	Problems []string  `json:"problems,omitempty"`
	Remarks  []string  `json:"remarks,omitempty"`
	At       time.Time `json:"at"`
}

// run runs the step and writes all that it prints to log. The error is about the log or
// the step's start; a step that fails has Passed false.
func (s step) run(ctx context.Context, list skipList, log io.Writer) (result, error) {
	r := result{Name: s.Name, Command: strings.Join(s.Command, " "), Note: s.Note, At: time.Now().UTC().Truncate(time.Second)}
	begun := time.Now()
	fmt.Fprintf(log, "$ %s\n", r.Command)
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Env = append(os.Environ(), s.Env...)
	complaint := &tail{}
	cmd.Stderr = io.MultiWriter(log, complaint)
	// What the command started ends with it, when the run is interrupted.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var err error
	if s.Place == "" {
		cmd.Stdout = log
		err = cmd.Run()
	} else {
		err = s.judged(ctx, cmd, list, log, &r)
	}
	r.Seconds = time.Since(begun).Seconds()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case errors.As(err, &exit) && s.Peer && exit.ExitCode() == 1:
	case errors.As(err, &exit) && (len(r.Problems) == 0 || complaint.text != "" || exit.ExitCode() != 1): // 1: tests failed, as is said
		r.Problems = append(r.Problems, strings.TrimRight(fmt.Sprintf("%s: %v: %s", s.Command[0], err, complaint.text), ": \n"))
	case err != nil && exit == nil:
		return r, err
	}
	r.Passed = len(r.Problems) == 0
	return r, nil
}

// judged runs the command with its tests' events judged.
func (s step) judged(ctx context.Context, cmd *exec.Cmd, list skipList, log io.Writer, r *result) error {
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var convert *exec.Cmd
	if s.Binary != "" {
		convert = exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", s.Binary)
		convert.Stdin, convert.Stderr = events, log
		if events, err = convert.StdoutPipe(); err != nil {
			return err
		}
		if err := convert.Start(); err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	tests, readErr := follow(events, log)
	if convert != nil {
		readErr = errors.Join(readErr, convert.Wait())
	}
	err = cmd.Wait()
	if readErr != nil {
		return readErr
	}
	v := tests.judge(s.Place, list)
	r.Ran, r.Skips, r.Problems, r.Remarks = v.passed, v.skips, v.problems, v.remarks
	return err
}

// tail keeps the end of the text written to it, as much as is worth repeating.
type tail struct{ text string }

func (t *tail) Write(data []byte) (int, error) {
	const most = 2 << 10
	t.text += string(data)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(data), nil
}
