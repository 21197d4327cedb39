// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"weir/internal/base/safepath"
	"weir/internal/config"
	"weir/internal/core/event"
)

// inherited is the number of the first descriptor in a program beside its input, output and
// errors.
const inherited = 3

// command runs a program for each event.
type command struct {
	config.Command
	host string
}

func (c command) to() string { return c.Run[0] }

// deliver runs the program once: without a shell, with the event as JSON on its standard input
// and in a few variables. A program that has failed is not run again for the same event.
func (c command) deliver(ctx context.Context, e event.Event) error {
	file, err := openProgram(c.Run[0])
	if err != nil {
		return final{err}
	}
	defer file.Close()
	input, err := json.Marshal(message{e, c.host})
	if err != nil {
		return final{err}
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	output := &tail{}
	// What runs is the file that was examined, by the descriptor that the program inherits: the
	// interpreter of a script opens it there.
	program := exec.CommandContext(limited, safepath.Descriptor(inherited), c.Run[1:]...)
	program.Args[0], program.ExtraFiles = c.Run[0], []*os.File{file}
	program.Dir, program.Env = "/", variables(e, c.host)
	program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(append(input, '\n')), output, output
	// What the program starts ends with it.
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
	program.WaitDelay = time.Second
	err = program.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return final{fmt.Errorf("%s: did not end within %s and was killed%s", c.Run[0], c.Timeout, output)}
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return final{fmt.Errorf("%s: %w%s", c.Run[0], failed, output)}
	}
	return final{err}
}

// variables returns the environment of the program; nothing of the agent's own is in it.
func variables(e event.Event, host string) []string {
	list := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, v := range [][2]string{
		{"HOST", host}, {"EVENT", e.Kind}, {"STATE", e.State}, {"SEVERITY", e.Severity}, {"ID", fmt.Sprint(e.ID)},
		{"TYPE", e.Subject.Type}, {"NAME", e.Subject.Name}, {"LINK", e.Subject.Link}, {"TEXT", e.Text}, {"REMEDY", e.Remedy},
	} {
		list = append(list, "WEIR_"+v[0]+"="+strings.ReplaceAll(v[1], "\x00", "?"))
	}
	return list
}

// openProgram opens a program to be run, and refuses one that another user could change or
// replace: it runs with the agent's rights.
func openProgram(path string) (*os.File, error) {
	f, err := safepath.Program(path)
	var reason *fs.PathError
	switch {
	case errors.Is(err, safepath.ErrNotProgram):
		return nil, fmt.Errorf("%s: is no program; make it one: chmod 755 %s", path, path)
	case errors.As(err, &reason):
		return nil, fmt.Errorf("%s: %w", path, reason.Err)
	}
	return f, err
}

// mostOutput is how much of a program's output an error quotes.
const mostOutput = 300

// tail keeps the end of what a program writes.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-mostOutput):]
	return len(p), nil
}

// String returns the output as the end of an error.
func (t *tail) String() string {
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return ": " + text
	}
	return ""
}
