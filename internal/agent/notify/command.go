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
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/internal/config"
	"weir/internal/event"
)

// command runs a program for each event.
type command struct {
	config.Command
	host string
}

func (c command) to() string { return c.Run[0] }

// deliver runs the program once: without a shell, with the event as JSON on its standard input
// and in a few variables. A program that has failed is not run again for the same event.
func (c command) deliver(ctx context.Context, e event.Event) error {
	if err := trusted(c.Run[0]); err != nil {
		return final{err}
	}
	input, err := json.Marshal(message{e, c.host})
	if err != nil {
		return final{err}
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	output := &tail{}
	program := exec.CommandContext(limited, c.Run[0], c.Run[1:]...)
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

// trusted refuses a program that others than root, or the user that the agent runs as, may
// change: it runs with the agent's rights.
func trusted(path string) error {
	real, err := filepath.EvalSymlinks(path)
	var reason *fs.PathError
	if errors.As(err, &reason) { // which may name a folder on the way
		err = fmt.Errorf("%s: %w", path, reason.Err)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	folder, err := os.Stat(filepath.Dir(real))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: is no program; make it one: chmod 755 %s", path, real)
	case owner != 0 && owner != uint32(os.Geteuid()), info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: others than root may change it; close it: chown root %s && chmod 755 %s", path, real, real)
	case folder.Mode().Perm()&0o002 != 0 && folder.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("%s: others than root may replace it; close its folder: chmod o-w %s", path, filepath.Dir(real))
	}
	return nil
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
