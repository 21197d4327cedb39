// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

var atOnce = flag.Int("at-once", 1, "run as many tests at once, each in a process and a sandbox of its own; tests wait for most of their time")

// apart runs each test that -test.run chooses in a process of its own, which is called as this one
// was, and prints what it printed when it has ended. It returns the exit status.
func apart(path string, out io.Writer) int {
	first, below := chosen()
	list, err := exec.Command("/proc/self/exe", "-test.list", first).Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: list the tests:", err)
		return 1
	}
	names := strings.Fields(string(list))
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		failed  bool
		next    = make(chan string, len(names))
	)
	for _, name := range names {
		next <- name
	}
	close(next)
	for range *atOnce {
		running.Go(func() {
			for name := range next {
				text, err := one(path, name, below)
				mu.Lock()
				failed = failed || err != nil
				_, _ = out.Write(text)
				var exit *exec.ExitError
				if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
					fmt.Fprintf(out, "%s: %v\n", name, err)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if failed {
		fmt.Fprintln(out, "FAIL")
		return 1
	}
	fmt.Fprintln(out, "PASS")
	return 0
}

// chosen splits -test.run into the pattern of tests and, with its slash, that of what is below.
func chosen() (first, below string) {
	pattern := flag.Lookup("test.run").Value.String()
	first, rest, under := strings.Cut(pattern, "/")
	if under {
		below = "/" + rest
	}
	if first == "" {
		first = "."
	}
	return first, below
}

// one runs a test and returns what it printed, without the verdict about all tests of a process.
func one(path, name, below string) ([]byte, error) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	args := append(slices.Clone(os.Args[1:]), "-at-once=1", "-test.run=^"+name+"$"+below)
	cmd := exec.Command("/proc/self/exe", args...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	cmd.Env = append(os.Environ(), thisProgram+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	return verdict.ReplaceAll(text.Bytes(), nil), err
}

// verdict is the last line of a process with tests, and what precedes it when none was chosen.
var verdict = regexp.MustCompile(`(?m)^(testing: warning: no tests to run\n)?\x16?(PASS|FAIL)\n\z`)
