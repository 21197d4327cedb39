// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/bpf"
)

var (
	long     = flag.Bool("long", false, "run the tests at their full size")
	backend  = flag.String("backend", "", "demand this backend of every agent, bpf or tc; without it an agent takes what this kernel has")
	capacity = flag.Uint64("mbit", 0, "capacity of the links in Mbit/s; 0: 50, or 25 on an emulated CPU")
)

// weir is the program under test.
var weir string

// inSandbox is set in the environment of the process that runs the tests.
const inSandbox = "WEIR_E2E_SANDBOX"

// thisProgram names the weir to test in the environment.
const thisProgram = "WEIR_E2E_PROGRAM"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == childArg {
		os.Exit(child(os.Args[2], os.Args[3:]))
	}
	flag.Parse()
	if *capacity == 0 {
		*capacity = 50
		if emulated() { // where a packet costs ten times the time
			*capacity = 25
		}
	}
	if *backend == plan.BackendBPF {
		if err := bpf.Demand(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: -backend bpf:", err)
			os.Exit(3)
		}
	}
	if os.Geteuid() != 0 {
		fmt.Println("SKIP: making network namespaces needs root")
		os.Exit(0)
	}
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run())
	}
	if os.Getenv(inSandbox) == "" {
		os.Exit(outside())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// outside finds or makes the program under test, and runs the tests where they can leave nothing
// behind. It returns the exit status.
func outside() int {
	path, built, err := program()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	if built != "" {
		defer os.RemoveAll(built)
	}
	if *atOnce > 1 {
		return apart(path, os.Stdout)
	}
	return sandbox(path)
}

// sandbox runs this program again in namespaces of its own.
func sandbox(path string) int {
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inSandbox+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e: make a sandbox:", err)
		return 1
	}
	return 0
}

// program returns the weir to test, which has weir-manager beside it: $WEIR_E2E_PROGRAM, one built
// from the source around this package, or (in a virtual machine, where there is no source) the one
// in PATH. The folder of one that was built is the caller's to remove.
func program() (path, built string, err error) {
	if path := os.Getenv(thisProgram); path != "" {
		path, err = filepath.Abs(path)
		return path, "", err
	}
	if _, err := os.Stat("../../../go.mod"); err != nil {
		path, err = exec.LookPath("weir")
		return path, "", err
	}
	if built, err = os.MkdirTemp("", "weir-e2e-"); err != nil {
		return "", "", err
	}
	build := exec.Command("go", "build", "-o", built+"/", "weir/cmd/weir", "weir/cmd/weir-manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", errors.Join(fmt.Errorf("build weir: %w\n%s", err, out), os.RemoveAll(built))
	}
	return filepath.Join(built, "weir"), built, nil
}

// prepare gives the sandbox file systems of its own: no process outside of it sees what
// an agent writes, pins or mounts.
func prepare() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	source, err := os.ReadFile(os.Getenv(inSandbox)) // it may be about to be hidden
	if err != nil {
		return err
	}
	beside, err := os.ReadFile(filepath.Join(filepath.Dir(os.Getenv(inSandbox)), "weir-manager"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a former weir is its own manager
		return err
	}
	for _, m := range []struct{ kind, at, options string }{
		{"proc", "/proc", ""},
		{"tmpfs", "/run", "mode=755"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	// All users may run it, since one of the tests runs as the user nobody.
	weir = "/run/e2e/bin/weir"
	if err := os.MkdirAll(filepath.Dir(weir), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(weir, source, 0o755), os.WriteFile(weir+"-manager", beside, 0o755), addGroup())
}

// groupName is who may use the agents' sockets, groupID its number.
const (
	groupName = "weir-e2e"
	groupID   = 64747
)

// addGroup makes the group exist in here.
func addGroup() error {
	groups, err := os.ReadFile("/etc/group")
	if err != nil {
		return err
	}
	groups = fmt.Appendf(groups, "%s:x:%d:\n", groupName, groupID)
	if err := os.WriteFile("/run/e2e/group", groups, 0o644); err != nil {
		return err
	}
	if err := unix.Mount("/run/e2e/group", "/etc/group", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount at /etc/group: %w", err)
	}
	return nil
}

// emulated says that QEMU translates this CPU's instructions.
func emulated() bool {
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	return strings.Contains(string(cpu), "QEMU TCG")
}

// onBPF says whether the agents under test use the BPF qdisc.
func onBPF() bool {
	if *backend != "" {
		return *backend == plan.BackendBPF
	}
	return bpf.Supported() == nil
}
