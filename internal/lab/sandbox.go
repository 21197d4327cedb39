// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
	"weir/internal/lab/sandbox"
)

// ChildArg is the program's hidden first argument by which it runs Child
// instead of what it does otherwise.
const ChildArg = "__lab"

// The parts that a child can play.
const (
	partRun    = "run"    // one scenario on a host of its own
	partCost   = "cost"   // a cost measurement on a host of its own
	partTiming = "timing" // a measurement of schedules on a host of its own
	partSoak   = "soak"   // the soaker, see meter.Soaker
	// partCable is the program behind a tap.
	partCable = "cable"
)

// request is the order that a child reads from its standard input.
type request struct {
	File      string `json:"file"`
	Data      []byte `json:"data"` // of the scenario file
	Scheduler string `json:"scheduler"`
	Backend   string `json:"backend"`
	CPU       bool   `json:"cpu"`
}

// answer is the result that a child writes to descriptor 3.
type answer struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// answerFD is the child's end of the answer's pipe.
const answerFD = 3

// inSandbox plays a part in new namespaces and decodes its answer into result.
// The child is the first process of its process namespace: when it ends, for
// whatever reason, the kernel ends every program that it started, and with them
// the network namespaces and everything in them.
func inSandbox(ctx context.Context, part string, ask request, result any, stderr io.Writer) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the lab makes network namespaces and qdiscs, which needs root: run it with sudo: %w", dataplane.ErrPrivilege)
	}
	question, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ChildArg, part)
	cmd.Stdin = bytes.NewReader(question)
	// Go's own preemption of long loops would be part of what cost counts.
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = stderr
	cmd.ExtraFiles = []*os.File{write}
	wait, err := sandbox.Start(cmd)
	write.Close()
	if err != nil {
		return err
	}
	output, readErr := io.ReadAll(read)
	waitErr := wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var a answer
	if readErr != nil || json.Unmarshal(output, &a) != nil {
		return fmt.Errorf("the lab's private host ended without an answer: %w", errors.Join(waitErr, readErr))
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	return json.Unmarshal(a.Result, result)
}

// Child plays the part named in args and returns the exit status. main calls it
// when the first argument is ChildArg, before anything else.
func Child(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "weir: "+ChildArg+" is for the lab's own use")
		return 2
	}
	switch args[0] {
	case partSoak:
		return childError(soak())
	case partCable:
		return childError(carry())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Hour)
	defer cancel()
	var a answer
	result, err := play(ctx, args[0])
	if err == nil {
		a.Result, err = json.Marshal(result)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return childError(json.NewEncoder(os.NewFile(answerFD, "answer")).Encode(a))
}

func childError(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir lab:", err)
		return 1
	}
	return 0
}

func play(ctx context.Context, part string) (any, error) {
	var ask request
	if err := json.NewDecoder(os.Stdin).Decode(&ask); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	unix.CloseOnExec(answerFD) // the generators must not keep it open
	if err := privateHost(); err != nil {
		return nil, err
	}
	switch part {
	case partRun:
		return runExperiment(ctx, ask)
	case partCost:
		return runCost(ctx, ask)
	case partTiming:
		return runTiming(ctx, ask)
	}
	return nil, fmt.Errorf("%s %q: no such part", ChildArg, part)
}

// stateDir is on the private host's own /run.
const stateDir = "/run/weir-lab"

// privateHost makes the mounts of the new namespaces its own.
func privateHost() error {
	if err := sandbox.Enter(); err != nil {
		return err
	}
	return os.MkdirAll(stateDir, 0o700)
}
