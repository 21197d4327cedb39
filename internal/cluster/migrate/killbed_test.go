// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/base/nsthread"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/cluster/migrate/podman"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// moved is the container of the tests that kill.
const moved = "count"

// machine is one of two nodes whose parts can be killed, each for itself: the agent, which is in
// this process; its helper, which is another; and the engine with the programs that it starts.
type machine struct {
	t      *testing.T
	name   string
	dir    string // of the agent and the helper
	enter  []string
	engine killEngine

	mu     sync.Mutex
	helper *exec.Cmd
	life   io.Closer // of the helper
	agent  *migrate.Local
}

// killEngine is what differs between engines.
type killEngine interface {
	kind() wire.EngineName
	// parts lists what can be killed beside agent, helper and unit.
	parts() []string
	// helper returns the variables of the environment by which a helper finds the engine.
	helper() []string
	// kill kills the engine itself; revive starts it again.
	kill()
	revive()
	// start runs the container in a network; remove removes it with that.
	start(network string)
	remove()
	// pid returns the container's first process, 0 for none that runs. Its files are below
	// /proc/PID/root.
	pid() int
	// reach calls f with an address at which the container listens, where that can be reached.
	reach(network string, f func(address string) error) error
	// owns reports whether a process is the machine's: of the engine, or of a program that it
	// starts.
	owns(pid int) bool
	// clear removes what moves have left.
	clear()
	// left lists what there is on the machine that belongs to no container that runs.
	left() []string
}

// Variables of a helper's environment.
const (
	helperSocket = "WEIR_TEST_HELPER"
	helperDocker = "WEIR_TEST_DOCKER"
	helperPodman = "WEIR_TEST_PODMAN"
)

// serveHelper is the main function of a helper.
func serveHelper(socket string) error {
	e, err := openEngine()
	if err != nil {
		return err
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}()
	return remote.NewHelper(e, permissive{}, 0, slog.New(slog.NewTextHandler(os.Stderr, nil))).Serve(context.Background(), ln)
}

func openEngine() (migrate.Engine, error) {
	if dir := os.Getenv(helperPodman); dir != "" {
		return podman.Open(dir)
	}
	return docker.Open(os.Getenv(helperDocker))
}

// permissive is a guard that permits every call.
type permissive struct{}

func (permissive) Describe(*remote.Warrant, string) error          { return nil }
func (permissive) Lacking(*remote.Warrant, migrate.MoveSpec) error { return nil }
func (permissive) Admit(*remote.Warrant) error                     { return nil }
func (permissive) Copy(string) error                               { return nil }
func (permissive) Take(_ remote.Verb, _ move.Step, _ string, o migrate.MoveSpec) (remote.Passage, error) {
	return remote.Passage{Order: o, Done: func(_ migrate.StepOutcome, err error) error { return err }}, nil
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
}

func (m *machine) socket() string { return filepath.Join(m.dir, "helper.sock") }

// startHelper starts the helper, as systemd does.
func (m *machine) startHelper() {
	m.t.Helper()
	_ = os.Remove(m.socket()) // of the one before
	program, err := os.Executable()
	m.must(err)
	args := append(append([]string{}, m.enter...), program)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), append(m.engine.helper(), helperSocket+"="+m.socket())...)
	life, err := cmd.StdinPipe() // it ends with this process, whichever of its threads has started it
	m.must(err)
	log, err := os.OpenFile(filepath.Join(m.dir, "helper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	m.must(err)
	cmd.Stderr = log
	m.must(cmd.Start())
	m.must(log.Close())
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("unix", m.socket()); err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: the helper does not answer", m.name)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.helper, m.life = cmd, life
}

// startAgent starts the agent, which reads what a former one has left.
func (m *machine) startAgent() {
	m.t.Helper()
	e, err := remote.Open(m.socket(), m.engine.kind())
	m.must(err)
	l, err := migrate.NewLocal(m.name, e, filepath.Join(m.dir, "agent"), slog.New(slog.DiscardHandler))
	m.must(err)
	m.mu.Lock()
	was := m.agent
	m.agent = l
	m.mu.Unlock()
	if was != nil {
		_ = was.Close()
	}
}

func (m *machine) now() *migrate.Local {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agent
}

// stop ends the agent and the helper.
func (m *machine) stop() {
	_ = m.now().Close()
	m.killHelper(true)
}

// killHelper kills the helper, and what it has started if all is set, as systemd does with a
// unit.
func (m *machine) killHelper(all bool) {
	m.mu.Lock()
	cmd := m.helper
	m.mu.Unlock()
	pids := []int{cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, file := range tasks {
			text, _ := os.ReadFile(file)
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	if len(m.enter) > 0 && len(pids) > 1 && !all {
		pids = pids[:2] // nsenter, and the helper itself
	} else if !all {
		pids = pids[:1]
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = cmd.Wait()
}

// pids lists the machine's processes with a name, as the kernel has it. CRIU's names itself, and so
// do those that it restores.
func (m *machine) pids(name string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, file := range all {
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		text, _ := os.ReadFile(file)
		found := strings.TrimSpace(string(text)) == name
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); name == "criu" {
			found = bytes.Contains(args, []byte("\x00swrk\x00")) || bytes.Contains(args, []byte(" --rpc "))
		}
		if found && m.engine.owns(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// kill kills a part, and says whether it was there.
func (m *machine) kill(part string) bool {
	switch part {
	case "none":
		return true
	case "helper", "unit":
		m.killHelper(part == "unit")
		m.startHelper()
		return true
	case "engine":
		m.engine.kill()
		m.engine.revive()
		return true
	}
	pids := m.pids(part)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids) > 0
}

// count waits until the container has counted past n.
func (m *machine) count(n int) (c counter.Count, err error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		pid := m.engine.pid()
		if pid == 0 {
			err = errors.New("it does not run")
			continue
		}
		var text []byte
		if text, err = os.ReadFile(fmt.Sprintf("/proc/%d/root%s", pid, counter.File)); err != nil {
			continue
		}
		if c, err = counter.Check(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1])); err == nil && c.Last > n {
			return c, nil
		}
	}
	return c, fmt.Errorf("%s on %s has not come past %d: %w", moved, m.name, n, cmpError(err))
}

func cmpError(err error) error {
	if err == nil {
		return errors.New("it stands still")
	}
	return err
}

// reached reads a line from the container, over its network.
func (m *machine) reached(network string) error {
	return m.engine.reach(network, func(address string) error {
		conn, err := net.DialTimeout("tcp", address, 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
		_, err = io.ReadFull(conn, make([]byte, 1))
		return err
	})
}

// rules lists CRIU's rules in the network namespace of a process.
func rules(pid int) []string { return rulesIn(fmt.Sprintf("/proc/%d/ns/net", pid)) }

// frozen lists the cgroups below a directory pattern that are frozen.
func frozen(pattern string) (list []string) {
	for _, file := range []string{"freezer.state", "cgroup.freeze"} {
		files, _ := filepath.Glob(filepath.Join(pattern, file))
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && string(text) != "THAWED\n" && string(text) != "0\n" {
				list = append(list, f+" is "+strings.TrimSpace(string(text)))
			}
		}
	}
	return list
}

// inNet runs f in the network namespace of a process.
func inNet(pid int, f func() error) error {
	return nsthread.InPath(fmt.Sprintf("/proc/%d/ns/net", pid), f)
}
