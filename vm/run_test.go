// SPDX-License-Identifier: Apache-2.0

// Package vm_test tries vm/run the way a user calls it. What only concerns the
// command line needs no machine; the rest boots real ones, which takes some
// ten seconds each, and is left out with -short.
package vm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bootLimit is how long a machine may take to its first output. It is generous,
// because tests of other packages keep the CPUs busy too.
const bootLimit = 3 * time.Minute

// result is what one call of vm/run left behind.
type result struct {
	status         int
	stdout, stderr string
}

// run calls vm/run and returns once it has ended.
func run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "./run", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("vm/run %q: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// needMachine skips a test where no machine can be booted, and sees to it that
// the image is there before a test measures anything.
func needMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: boots a virtual machine")
	}
	for _, tool := range []string{"qemu-system-x86_64", "mmdebstrap", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing; install it with: scripts/deps vm", tool)
		}
	}
	if out, err := exec.Command("./build").CombinedOutput(); err != nil {
		t.Fatalf("vm/build: %v\n%s", err, out)
	}
}

func TestWrongCallsAreRefusedInOneLine(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "no command"},
		{"nothing after the dashes", []string{"--"}, "no command"},
		{"command without dashes", []string{"ls"}, "unknown argument ls"},
		{"unknown option", []string{"--frob", "--", "true"}, "unknown argument --frob"},
		{"option without value", []string{"--kernel"}, "--kernel needs a value"},
		{"unknown kernel", []string{"--kernel", "5.4", "--", "true"}, "there are: 7.3 6.18"},
		{"unknown flavour", []string{"--flavour", "small", "--", "true"}, "there are: cloud full"},
		{"unknown processor", []string{"--arch", "riscv64", "--", "true"}, "there are: amd64 arm64"},
		{"no such image for it", []string{"--arch", "arm64", "--image", "cluster", "--", "true"}, "there is none for arm64; there is: plain"},
		{"unknown image", []string{"--image", "large", "--", "true"}, "there are: plain cluster"},
		{"tap without address", []string{"--tap", "3", "--", "true"}, "--tap 3: not a file descriptor or a tap, and a hardware address"},
		{"tap that is not there", []string{"--tap", "nosuchtap0,02:00:00:00:00:01", "--", "true"}, "there is no tap nosuchtap0"},
		{"device that is no tap", []string{"--tap", "lo,02:00:00:00:00:01", "--", "true"}, "there is no tap lo"},
		{"tap that is not open", []string{"--tap", "77,02:00:00:00:00:01", "--", "true"}, "file descriptor 77 is not open"},
		{"no CPU", []string{"--cpus", "0", "--", "true"}, "--cpus 0"},
		{"memory without unit", []string{"--memory=512", "--", "true"}, "--memory 512"},
		{"time-out in words", []string{"--timeout", "soon", "--", "true"}, "--timeout soon"},
		{"file that is not there", []string{"--copy", "nowhere", "--", "true"}, "--copy nowhere"},
		{"one file twice", []string{"--copy", "run", "--copy", "./run", "--", "true"}, "a run already"},
		{"file named like the scenarios", []string{"--copy", "../lab", "--", "true"}, "a lab already"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, test.args...)
			if got.status != 2 {
				t.Errorf("exit status %d, want 2", got.status)
			}
			if got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, test.want) {
				t.Errorf("printed %q and %q, want one line on stderr with %q", got.stdout, got.stderr, test.want)
			}
		})
	}
}

func TestCommandRunsAsIfHere(t *testing.T) {
	needMachine(t)
	dir := t.TempDir()
	payload := append(bytes.Repeat([]byte("a line\r\n\x00\xff"), 50_000), "no newline at the end"...)
	if err := os.WriteFile(filepath.Join(dir, "payload"), payload, 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "--out", filepath.Join(dir, "out"), "--copy", filepath.Join(dir, "payload"), "--", "bash", "-c", `
		cat payload
		echo "to stderr" >/dev/stderr
		mkdir -p "$OUT/sub dir" && cp payload "$OUT/sub dir/copy"
		sleep 1000 & # holds the output open: nobody may wait for it
		tc qdisc add dev lo root netem delay 1ms && # the kernel loads a module for this
		[ "$(id -un):$(stat -f -c %T /sys/fs/bpf)" = root:bpf_fs ] && exit 3`)
	if got.status != 3 {
		t.Errorf("exit status %d, want 3", got.status)
	}
	if got.stdout != string(payload) {
		t.Errorf("stdout has %d bytes that differ from the %d written", len(got.stdout), len(payload))
	}
	if got.stderr != "to stderr\n" {
		t.Errorf("stderr is %q", got.stderr)
	}
	artefact, err := os.ReadFile(filepath.Join(dir, "out", "sub dir", "copy"))
	if err != nil || !bytes.Equal(artefact, payload) {
		t.Errorf("the artefact has %d bytes, want the %d written (%v)", len(artefact), len(payload), err)
	}
}

// What a machine is given is unpacked into its memory, which used to be too small for it:
// the kernel left files out, and the command ran without them.
func TestMachineHasRoomForWhatItIsGiven(t *testing.T) {
	needMachine(t)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("large "), 50<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	got := run(t, "--copy", large, "--", "stat", "--format=%s", "large")
	if want := "314572800\n"; got.status != 0 || got.stdout != want {
		t.Errorf("exit status %d, standard output %q, want 0 and %q; standard error:\n%s", got.status, got.stdout, want, got.stderr)
	}
	got = run(t, "--memory", "1024M", "--copy", large, "--", "true")
	if want := "vm/run: --memory 1024M: what the machine is given fills it; give it "; got.status != 125 || !strings.HasPrefix(got.stderr, want) {
		t.Errorf("exit status %d, standard error %q, want 125 and %q...", got.status, got.stderr, want)
	}
}

func TestHangingGuestIsEnded(t *testing.T) {
	needMachine(t)
	if got := run(t, "--timeout", "2", "--", "sleep", "1000"); got.status != 124 {
		t.Errorf("exit status %d, want 124; stderr: %s", got.status, got.stderr)
	}
}

func TestDeadGuestIsToldFromAFailedCommand(t *testing.T) {
	needMachine(t)
	got := run(t, "--", "bash", "-c", "echo c >/proc/sysrq-trigger")
	if got.status != 125 || !strings.Contains(got.stderr, "sysrq triggered crash") {
		t.Errorf("exit status %d, want 125 and the kernel's last words; stderr: %s", got.status, got.stderr)
	}
}

func TestInterruptLeavesNothingBehind(t *testing.T) {
	needMachine(t)
	temp := t.TempDir()
	cmd := exec.Command("./run", "--", "bash", "-c", "echo started; sleep 1000")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(bootLimit, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	if n, err := stdout.Read(make([]byte, 64)); n == 0 {
		t.Fatalf("no output from the guest: %v", err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status says more than the error
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d, want 130", got)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left in the temporary directory: %q", left)
	}
}

// Two machines at once share two busy CPUs, so wall time means nothing to
// either; what they measure must come out the same to the last digit.
func TestVirtualTimeRepeats(t *testing.T) {
	needMachine(t)
	const measure = `
		ip netns add server && ip link add up0 type veth peer name eth0 netns server
		ip addr add 10.0.0.1/24 dev up0 && ip link set up0 up
		ip -n server addr add 10.0.0.2/24 dev eth0 && ip -n server link set eth0 up
		tc qdisc add dev up0 root tbf rate 100mbit burst 20k limit 100k
		ethtool -K up0 tso off gso off >/dev/null
		ip netns exec server iperf3 --server --daemon && sleep 0.3
		iperf3 --client 10.0.0.2 --time 2 --json | jq .end.sum_received.bits_per_second
		cut -d ' ' -f 1 /proc/uptime`
	var results [2]result
	t.Run("two machines", func(t *testing.T) {
		for i := range results {
			t.Run("machine", func(t *testing.T) {
				t.Parallel()
				results[i] = run(t, "--virtual-time", "--", "bash", "-c", measure)
			})
		}
	})
	if results[0].status != 0 || results[0].stdout == "" {
		t.Fatalf("exit status %d; stdout %q, stderr %q", results[0].status, results[0].stdout, results[0].stderr)
	}
	if results[0] != results[1] {
		t.Errorf("two runs differ:\n%+v\n%+v", results[0], results[1])
	}
}
