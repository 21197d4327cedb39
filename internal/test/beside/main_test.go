// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// sendArg has this program send instead of running tests.
const sendArg = "send"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == sendArg {
		send(os.Args[2])
	}
	for _, program := range []string{"networkctl", "nmcli", "ovs-vsctl"} {
		if _, err := exec.LookPath(program); err != nil || os.Getenv("OUT") == "" {
			fmt.Println("SKIP: the managers of networks are in the machine that scripts/test-managers boots")
			os.Exit(0)
		}
	}
	// netplan's own starts Open vSwitch, which has a row, and takes longer than it may.
	const unit = "/etc/systemd/system/netplan-ovs-cleanup.service"
	if err := os.WriteFile(unit, []byte("[Service]\nType=oneshot\nExecStart=/bin/true\n"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// packetBytes is the size of a packet that a workload sends, from its IP header on.
const packetBytes = 1000

// send sends packets to an address, twice what the link carries, whatever becomes of the
// network.
func send(to string) {
	addr := net.UDPAddrFromAddrPort(must(net.ResolveUDPAddr("udp", to)).AddrPort())
	conn := must(net.ListenUDP("udp", nil))
	content := make([]byte, packetBytes-28)
	for range time.Tick(packetBytes * 8 * time.Second / (2 * capacity)) {
		_, _ = conn.WriteToUDP(content, addr) // while the manager has taken the route away, there is none
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
