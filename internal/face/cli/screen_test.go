// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTopOnATerminal runs weir top on a pseudo-terminal of 100 by 20, presses keys and
// reads the screen.
func TestTopOnATerminal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "weir.sock")
	stop, err := ServeFake(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	keyboard, tty := openPTY(t)
	cmd := weirCommand(t, "top")
	cmd.Env = append(os.Environ(), "WEIR_SOCKET="+socket, "TERM=xterm-256color", "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	drawn := &watchedBuffer{changed: make(chan struct{}, 1)}
	go func() { _, _ = io.Copy(drawn, keyboard) }() // ends with EIO when weir does
	drawn.await(t, "> web ")
	drawn.await(t, "q quit  s sort (rate)")
	press(t, keyboard, "j")
	drawn.await(t, "> batch")
	press(t, keyboard, "s")
	drawn.await(t, "s sort (name)")
	press(t, keyboard, "\r")
	drawn.await(t, "batch has weight 2")
	press(t, keyboard, "q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("weir top ended with %v; it drew %q", err, drawn.String())
	}
}

func press(t *testing.T, keyboard io.Writer, keys string) {
	t.Helper()
	if _, err := io.WriteString(keyboard, keys); err != nil {
		t.Fatal(err)
	}
}

// weirCommand returns this test binary under the name that makes it weir.
func weirCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "weir")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return exec.Command(link, args...)
}

// openPTY makes a pseudo-terminal; text written to the first file counts as typed on the
// second.
func openPTY(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 100}); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	return keyboard, tty
}

// watchedBuffer collects the output and lets a test wait for a text in it.
type watchedBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (w *watchedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.b.Write(p)
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *watchedBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// await waits until text is drawn. The terminal is sent only what changes, so
// texts are looked for in all that was drawn, not in what a screen would show.
func (w *watchedBuffer) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		if strings.Contains(w.String(), text) {
			return
		}
		select {
		case <-w.changed:
		case <-deadline:
			t.Fatalf("%q was not drawn within 15 s; drawn was %q", text, w.String())
		}
	}
}
