// SPDX-License-Identifier: Apache-2.0

package process

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lingering is the environment variable by which the test runs itself as lingers: the address to
// connect to.
const lingering = "WEIR_TEST_LINGERING"

func TestMain(m *testing.M) {
	if to := os.Getenv(lingering); to != "" {
		lingers(to)
		return
	}
	os.Exit(m.Run())
}

// lingers has a socket whose last close waits for an hour: it is to linger, and what was written
// into it nobody reads.
func lingers(to string) {
	conn, err := net.Dial("tcp4", to)
	if err != nil {
		panic(err)
	}
	if err := conn.(*net.TCPConn).SetLinger(3600); err != nil {
		panic(err)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(make([]byte, 64<<20)) // as much as goes in
	_, _ = os.Stdout.WriteString("ready")
	select {}
}

// TestSocketThatLingers: a process that ends while one of its sockets is looked at leaves the last
// close of it to the reader, who waits for as long as the process said that a close is to wait.
func TestSocketThatLingers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), lingering+"="+ln.Addr().String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- EachSocket(cmd.Process.Pid, func(fd int) error {
			if l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err != nil || l.Onoff == 0 || ended {
				return nil
			}
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return nil
		})
	}()
	select {
	case err := <-done:
		if err != nil || !ended {
			t.Errorf("%v; a socket that lingers was found: %v", err, ended)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("waits for what a process that has ended has left in a socket")
	}
}
