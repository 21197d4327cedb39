// SPDX-License-Identifier: Apache-2.0

// Package daemon finds the processes of a Docker engine of this machine: the one that listens
// on its socket, and the shim beside each container, which knows the container's runtime.
package daemon

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Listener returns the process that listens on a unix socket.
func Listener(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if ctlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); ctlErr != nil {
		return 0, ctlErr
	}
	if err != nil {
		return 0, fmt.Errorf("%s: whose socket is it: %w", socket, err)
	}
	if peer.Pid == 0 {
		return 0, fmt.Errorf("%s: its daemon is in another process namespace; run the agent on the host itself", socket)
	}
	return int(peer.Pid), nil
}

// Environ returns a variable of a process's environment.
func Environ(pid int, name, otherwise string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return otherwise
	}
	for entry := range strings.SplitSeq(string(text), "\x00") {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return otherwise
}

// Output runs a command and returns what it printed; an error has its last line.
func Output(cmd *exec.Cmd) (string, error) {
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(errs.String()+"\n"+out.String()), "\n")
		return "", fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return out.String(), nil
}

// Shim is the process that containerd has beside each container, and knows which
// runtime runs it and where that keeps its state.
type Shim struct {
	Pid     int
	Address string // of containerd
	Runtime string // e.g. "runc"
	Root    string // the runtime's --root
}

// ShimOf finds the parent of a container's first process. file returns the path by which this
// process reaches a path of the engine's.
func ShimOf(file func(string) string, init int) (Shim, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", init))
	if err != nil {
		return Shim{}, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	s := Shim{Runtime: "runc"}
	if s.Pid, err = strconv.Atoi(fields[1]); err != nil {
		return s, err
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Pid))
	if err != nil {
		return s, err
	}
	list := strings.Split(string(args), "\x00")
	if i := slices.Index(list, "-address"); i >= 0 && i+1 < len(list) {
		s.Address = list[i+1]
	}
	bundle, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", s.Pid))
	if err != nil {
		return s, err
	}
	text, err := os.ReadFile(file(filepath.Join(bundle, "options.json")))
	if err != nil {
		return s, fmt.Errorf("find the runtime of process %d: %w", init, err)
	}
	var options struct {
		Root       string `json:"root"`
		BinaryName string `json:"binary_name"`
	}
	if err := json.Unmarshal(text, &options); err != nil {
		return s, fmt.Errorf("%s/options.json: %w", bundle, err)
	}
	if options.BinaryName != "" {
		s.Runtime = options.BinaryName
	}
	if s.Root = options.Root; s.Root == "" {
		return s, fmt.Errorf("%s/options.json names no root of the runtime", bundle)
	}
	s.Root = filepath.Join(s.Root, filepath.Base(filepath.Dir(bundle))) // .../runtime-runc/moby
	return s, nil
}
