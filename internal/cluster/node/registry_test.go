// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestOwnerOfAConnection(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1D32 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1D32 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:D2F0 0100007F:1D32 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0000000000000000 20 4 30 10 -1
`
	client, server := netip.MustParseAddrPort("127.0.0.1:54000"), netip.MustParseAddrPort("127.0.0.1:7474")
	if uid, err := ownerIn(strings.NewReader(table), client, server); uid != 1000 || err != nil {
		t.Errorf("the client's is %d, %v", uid, err)
	}
	if _, err := ownerIn(strings.NewReader(table), netip.MustParseAddrPort("127.0.0.1:1"), server); err == nil {
		t.Error("a connection that is not there has an owner")
	}
	if got, want := procAddress(netip.MustParseAddrPort("[::1]:80")), "00000000000000000000000001000000:0050"; got != want {
		t.Errorf("::1 is %s, want %s", got, want)
	}
	for _, listen := range []string{"127.0.0.1", "::1"} {
		t.Run(listen, func(t *testing.T) {
			l, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
			if err != nil {
				t.Skipf("no loopback of that kind: %v", err)
			}
			defer l.Close()
			if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if o := withOwner(t.Context(), c).Value(ownerKey{}).(owner); o.uid != os.Getuid() || o.err != nil {
				t.Errorf("this process's connection: %+v", o)
			}
		})
	}
}
