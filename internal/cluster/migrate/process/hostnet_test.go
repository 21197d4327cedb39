// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestHostConnections: in its host's network a container's own connections are found, by
// loopback too, and the sockets of others do not count.
func TestHostConnections(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	self := os.Getpid()
	if found := HostConnections(self, self); len(found) > 0 {
		t.Fatalf("without a connection: %v", found)
	}
	conn, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if found := HostConnections(self, self); !slices.Equal(codes(found), []string{"host-network"}) || !strings.Contains(found[0].Msg, conn.LocalAddr().String()) {
		t.Errorf("found %v", found)
	}
	if found, _ := Sockets(self, self); len(found) > 0 {
		t.Errorf("named twice: %v", found)
	}
	child := startSleep(t)
	if found := HostConnections(child, self); len(found) > 0 {
		t.Errorf("of another process: %v", found)
	}
	if _, bound := Sockets(child, self); len(bound) > 0 {
		t.Errorf("bound by another process: %v", bound)
	}
	if os.Geteuid() == 0 {
		other := startSleep(t, "unshare", "--net")
		waitFor(t, func() bool { return namespaceOf(other, "net") != namespaceOf(self, "net") })
		if found := HostConnections(self, other); len(found) > 0 {
			t.Errorf("in a network of its own: %v", found)
		}
	}
}

func startSleep(t *testing.T, prefix ...string) int {
	t.Helper()
	return startProgram(t, append(prefix, "sleep", "600")...)
}
