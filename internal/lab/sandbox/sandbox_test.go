// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inside has the test's program describe the sandbox that it is in.
const inside = "WEIR_SANDBOX_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(inside) {
	case "":
		os.Exit(m.Run())
	case "describe":
		describe(os.Getenv("KEEP"))
	case "linger":
		linger()
	}
}

func describe(keep string) {
	if err := Enter(keep); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	devices, _ := net.Interfaces()
	run, _ := os.ReadDir("/run")
	kept, _ := os.ReadFile(filepath.Join(keep, "file"))
	_, err := os.Stat("/sys/class/net/lo")
	processes, _ := filepath.Glob("/proc/[0-9]*")
	fmt.Printf("pid %d of %d, %d device %s, /run has %d entries, lo in /sys: %v, kept: %s\n",
		os.Getpid(), len(processes), len(devices), devices[0].Name, len(run), err == nil, kept)
}

// linger starts a process that would stay for a minute, says so, and ends.
func linger() {
	if err := exec.Command("sleep", "60").Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
}

func child(t *testing.T, part string, env ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("new namespaces need root")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), append(env, inside+"="+part)...)
	return cmd
}

func TestPrivate(t *testing.T) {
	keep := t.TempDir()
	if err := os.WriteFile(filepath.Join(keep, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := child(t, "describe", "KEEP="+keep)
	var out strings.Builder
	cmd.Stdout = &out
	wait, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	want := "pid 1 of 1, 1 device lo, /run has 0 entries, lo in /sys: true, kept: content\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}

func TestEndsWithItsFirstProcess(t *testing.T) {
	cmd := child(t, "linger")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	id, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "started\n" {
		t.Errorf("the child says %q (%v)", line, err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	members, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, m := range members {
		if other, err := os.Readlink(m); err == nil && other == id {
			t.Errorf("%s is in the sandbox that has ended", m)
		}
	}
}

func TestStartSaysWhyNot(t *testing.T) {
	if _, err := Start(exec.Command("/does/not/exist")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}
