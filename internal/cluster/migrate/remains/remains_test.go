// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a program that ends with the test.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// within has a network namespace of its own; it returns when that is there.
func within(t *testing.T) (pid int, run func(command string) string) {
	t.Helper()
	cmd := start(t, "unshare", "--net", "sleep", "600")
	pid = cmd.Process.Pid
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net"); err == nil && ns != home {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no namespace")
		}
	}
	return pid, func(command string) string {
		t.Helper()
		out, err := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(pid)+"/ns/net", "sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return string(out)
	}
}

// TestRulesOfCRIU: the lock goes, whichever way CRIU has made it, and other rules stay.
func TestRulesOfCRIU(t *testing.T) {
	const lock = `$t -N CRIU; $t -A CRIU -m mark --mark 0xc114 -j ACCEPT; $t -A CRIU -j DROP; $t -I INPUT -j CRIU; $t -I OUTPUT -j CRIU; $t -I INPUT -j CRIU`
	for name, command := range map[string]string{
		"iptables-nft":    `for t in iptables-nft ip6tables-nft; do $t -A INPUT -s ::/0 -j ACCEPT 2>/dev/null || $t -A INPUT -j ACCEPT; ` + lock + `; done`,
		"iptables-legacy": `for t in iptables-legacy ip6tables-legacy; do $t -A INPUT -j ACCEPT; ` + lock + `; done`,
		"nftables": `nft 'create table inet CRIU-4711; add chain inet CRIU-4711 input { type filter hook input priority 0; policy drop; };
			add chain inet CRIU-4711 output { type filter hook output priority 0; policy drop; };
			add table inet other; add chain inet other input { type filter hook input priority 0; policy accept; }'`,
	} {
		t.Run(name, func(t *testing.T) {
			if tool := strings.Fields(strings.NewReplacer("iptables-nft", "iptables-nft", "nftables", "nft").Replace(name))[0]; !has(tool) {
				t.Skipf("skipped: no %s here", tool)
			}
			pid, run := within(t)
			run("ip link set lo up; " + command)
			if exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(pid)+"/ns/net", "ping", "-c1", "-W1", "127.0.0.1").Run() == nil {
				t.Fatal("packets pass, so there is no lock to remove")
			}
			if taken, err := Clear(t.Context(), Here, pid, "no-such-cgroup"); err != nil || !slices.Equal(taken, []string{"rules that drop its packets"}) {
				t.Errorf("taken %q, %v", taken, err)
			}
			left := run("ping -c1 -W1 127.0.0.1 >/dev/null; nft list ruleset; iptables-legacy-save; ip6tables-legacy-save")
			if strings.Contains(left, "CRIU") || !strings.Contains(left, "other") && !strings.Contains(left, "accept") && !strings.Contains(left, "-A INPUT -j ACCEPT") {
				t.Errorf("left:\n%s", left)
			}
			if taken, err := Clear(t.Context(), Here, pid, "no-such-cgroup"); err != nil || len(taken) > 0 {
				t.Errorf("a second time: %q, %v", taken, err)
			}
		})
	}
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// TestNoTablesAreMade: to look for rules makes none.
func TestNoTablesAreMade(t *testing.T) {
	pid, run := within(t)
	if taken, err := Clear(t.Context(), Here, pid, "no-such-cgroup"); err != nil || len(taken) > 0 {
		t.Fatalf("%q, %v", taken, err)
	}
	if left := run("nft list ruleset; cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || true"); left != "" {
		t.Errorf("made:\n%s", left)
	}
}

// TestRepairMode: a connection that CRIU was reading sends again.
func TestRepairMode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: repair mode needs root")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	repair := func() (on int) {
		if err := raw.Control(func(fd uintptr) { on, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR) }); err != nil {
			t.Fatal(err)
		}
		return on
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) }); err != nil || repair() != 1 {
		t.Skipf("skipped: this kernel has no repair mode: %v", err)
	}
	if took, err := mend(os.Getpid()); !took || err != nil || repair() != 0 {
		t.Errorf("took %v, %v; repair mode %d", took, err, repair())
	}
	if took, err := mend(os.Getpid()); took || err != nil {
		t.Errorf("a second time: took %v, %v", took, err)
	}
}

// group makes a cgroup with a process in it, and returns its file for freezes.
func group(t *testing.T, id string) (pid int, dir, file string) {
	t.Helper()
	pid = start(t, "sleep", "600").Process.Pid
	for _, way := range [][2]string{{"freezer", "freezer.state"}, {"", "cgroup.freeze"}} {
		dir = filepath.Join("/sys/fs/cgroup", way[0], "weir-remains-test", "docker-"+id+".scope")
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", way[0], "cgroup.procs")); err != nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Skipf("skipped: no cgroup can be made here: %v", err)
		}
		t.Cleanup(func() { _ = removeGroup(filepath.Dir(dir)) })
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
		return pid, dir, filepath.Join(dir, way[1])
	}
	t.Skip("skipped: no freezer here")
	return 0, "", ""
}

// TestFreeze: a frozen cgroup of the container runs again; that of another does not.
func TestFreeze(t *testing.T) {
	const id = "5f0c7e11aa"
	pid, _, file := group(t, id)
	frozen, running := "FROZEN", "THAWED"
	if filepath.Base(file) == "cgroup.freeze" {
		frozen, running = "1", "0"
	}
	state := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	if err := os.WriteFile(file, []byte(frozen), 0); err != nil {
		t.Fatal(err)
	}
	if took, err := thaw("/", pid, "another"); took || err != nil || state() == running {
		t.Errorf("of another: took %v, %v, %s", took, err, state())
	}
	if took, err := thaw("/", pid, id); !took || err != nil || state() != running {
		t.Errorf("took %v, %v, %s", took, err, state())
	}
}

// TestHalfAContainer: processes of which the engine knows nothing end, and their cgroup goes.
func TestHalfAContainer(t *testing.T) {
	const id = "77aa0b0bcd"
	pid, dir, file := group(t, id)
	if filepath.Base(file) == "freezer.state" { // a half-restored container may be frozen as well
		if err := os.WriteFile(file, []byte("FROZEN"), 0); err != nil {
			t.Fatal(err)
		}
	}
	go func() { var s unix.WaitStatus; _, _ = unix.Wait4(pid, &s, 0, nil) }() // as init does
	if n, err := Half(t.Context(), Here, id); n != 1 || err != nil {
		t.Errorf("%d processes, %v", n, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its cgroup: %v", err)
	}
}

// TestProgramsAtWork: what works in a folder is found and ended, and nothing else.
func TestProgramsAtWork(t *testing.T) {
	folder := t.TempDir()
	inside := filepath.Join(folder, "work")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	other := start(t, "sleep", "601")
	cmd := exec.Command("sleep", "602")
	cmd.Dir = inside
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	if found := At(folder)(); !slices.Equal(found, []int{cmd.Process.Pid}) {
		t.Errorf("found %v, started %d", found, cmd.Process.Pid)
	}
	if n, err := End(t.Context(), At(folder)); n != 1 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another program: %v", err)
	}
}

// TestCRIUBeforeItsTask: CRIU that has not read yet what it is to do, or a child of it that tries
// the kernel, is found by the folder of its container.
func TestCRIUBeforeItsTask(t *testing.T) {
	const id = "ecc001375b21"
	bundle := filepath.Join(t.TempDir(), "moby", id)
	if err := os.MkdirAll(bundle, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "read forever", "swrk", "3")
	cmd.Dir = bundle
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	for verb := range map[Verb]bool{Checkpoint: true, Restore: true} {
		if found := On(id, verb)(); !slices.Equal(found, []int{cmd.Process.Pid}) {
			t.Errorf("%s: found %v, started %d", verb, found, cmd.Process.Pid)
		}
		if found := On("77aa0b0bcd", verb)(); len(found) > 0 {
			t.Errorf("%s of another container: found %v", verb, found)
		}
	}
	if n, err := End(t.Context(), On(id, Restore)); n != 1 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
}

// TestStateOfARuntime: the mount that runc has made for CRIU, and its state, go; those of
// another container stay.
func TestStateOfARuntime(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	if !has("runc") {
		t.Skip("skipped: no runc here")
	}
	root := t.TempDir()
	for _, id := range []string{"one", "two"} {
		dir := filepath.Join(root, id, rootOfCRIU)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(t.TempDir(), dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("skipped: nothing can be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	self := EngineNamespace{Root: "/proc/" + strconv.Itoa(os.Getpid()) + "/root", Command: Here.Command}
	if mounts, err := self.mounts(); err != nil || !slices.Contains(mounts, filepath.Join(root, "one", rootOfCRIU)) {
		t.Errorf("by way of /proc: %v", err)
	}
	for range 2 { // the second time there is nothing
		if err := State(t.Context(), self, "one", "runc"); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(root, "*", "*"))
	if err != nil || !slices.Equal(left, []string{filepath.Join(root, "two", rootOfCRIU)}) {
		t.Errorf("left: %q, %v", left, err)
	}
}
