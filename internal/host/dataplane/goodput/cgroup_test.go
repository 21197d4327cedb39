// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/mark/marktest"
)

// TestCgroup: the traffic of processes in a cgroup, in both directions.
func TestCgroup(t *testing.T) {
	b := newBed(t)
	dir := marktest.Cgroup(t)
	b.port = plan.Port{Cgroup: dir, Class: 3}
	b.watch()
	var ln net.Listener
	inside(t, b.far, func() (err error) { ln, err = net.Listen("tcp", "10.1.0.2:0"); return err })
	defer ln.Close()
	got := make(chan int64, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			got <- -1
			return
		}
		n, _ := io.Copy(io.Discard, c) // the count tells
		c.Close()
		got <- n
	}()
	const size = 1 << 20
	// Not by ip netns exec, which takes /sys away.
	out, err := exec.Command("nsenter", "--net="+b.box.Path(), "sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && exec bash -c 'head -c %d /dev/zero > /dev/tcp/10.1.0.2/%d'",
		dir, size, ln.Addr().(*net.TCPAddr).Port)).CombinedOutput()
	if err != nil {
		t.Fatalf("send: %v: %s", err, out)
	}
	select {
	case n := <-got:
		if n != size {
			t.Fatalf("%d bytes arrived", n)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the transfer takes too long")
	}
	if r := b.read(); !near(r.Sent, size) || !near(r.Acked, size) {
		t.Errorf("%+v", r.Counts)
	}
}
