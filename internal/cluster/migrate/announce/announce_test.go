// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNeighboursLearn: a neighbour that knows an address at another MAC address, and one that
// the neighbour has marked as good, are corrected by an announcement alone.
func TestNeighboursLearn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	pids := map[string]int{}
	for _, name := range []string{"moved", "neighbour"} {
		cmd := exec.Command("unshare", "--net", "sh", "-c", "echo up; exec sleep 600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if _, err := out.Read(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		pids[name] = cmd.Process.Pid
	}
	in := func(name, command string) string {
		t.Helper()
		out, err := exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(pids[name])+"/ns/net", "sh", "-ec", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return string(out)
	}
	in("moved", "ip link add e0 address 02:00:00:00:00:01 type veth peer name e1; ip link set e1 netns "+strconv.Itoa(pids["neighbour"])+
		"; ip link set lo up; ip addr add 10.9.0.1/24 dev e0; ip addr add fd09::1/64 dev e0 nodad; ip link set e0 up")
	in("neighbour", `ip addr add 10.9.0.2/24 dev e1; ip addr add fd09::2/64 dev e1 nodad; ip link set e1 up
		ip neigh add 10.9.0.1 lladdr 02:00:00:00:00:99 dev e1 nud stale; ip neigh add fd09::1 lladdr 02:00:00:00:00:99 dev e1 nud reachable`)
	known := func() string { return in("neighbour", "ip neigh show 10.9.0.1; ip neigh show fd09::1") }
	if strings.Count(known(), "02:00:00:00:00:99") != 2 {
		t.Fatalf("the neighbour knows already:\n%s", known())
	}
	if err := Addresses(pids["moved"], pids["moved"]); err != nil || strings.Count(known(), "02:00:00:00:00:99") != 2 {
		t.Errorf("the host's own namespace was announced: %v\n%s", err, known())
	}
	if err := Addresses(pids["moved"], os.Getpid()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(3 * time.Second); strings.Count(known(), "02:00:00:00:00:01") != 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the neighbour knows:\n%s", known())
		}
	}
}
