// SPDX-License-Identifier: Apache-2.0

package bustest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const brokerTimeout = 2 * time.Minute // a busy machine, and the first time the fetch

// Broker is a real Kafka in a process of its own (scripts/kafka).
type Broker struct {
	Address string // host:port

	dir      string
	settings string   // file, "" = none
	users    []string // of SCRAM
	cmd      *exec.Cmd
}

// StartBroker starts one that ends with the test. Without Java it skips the test.
func StartBroker(t *testing.T) *Broker {
	t.Helper()
	return StartBrokerWith(t, func(int) string { return "" })
}

// StartBrokerWith is StartBroker with server properties of the test's own, which may
// use ten ports from the one given on, and users of SCRAM as scripts/kafka has them.
func StartBrokerWith(t *testing.T, settings func(port int) string, users ...string) *Broker {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s, so no broker: scripts/deps cluster installs it", tool)
		}
	}
	port := freePorts(t)
	b := &Broker{dir: t.TempDir(), Address: fmt.Sprintf("127.0.0.1:%d", port), users: users}
	if text := settings(port); text != "" {
		b.settings = filepath.Join(b.dir, "settings")
		if err := os.WriteFile(b.settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Start(t)
	t.Cleanup(b.Kill)
	return b
}

// freePorts returns the first of ten neighbouring ports that are free. They are below those
// that the kernel gives to outgoing connections (ip_local_port_range), which would take one of
// them while the broker starts.
func freePorts(t *testing.T) int {
	t.Helper()
	const first, last = 20000, 32760
	for range 200 {
		port := first + 10*rand.IntN((last-first)/10)
		if free(port, 10) {
			return port
		}
	}
	t.Fatal("no ten free ports in a row")
	return 0
}

// free reports whether n ports from one on are free.
func free(port, n int) bool {
	for next := port; next < port+n; next++ {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(next))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// Start starts it, again after Kill, and waits until it is ready.
func (b *Broker) Start(t *testing.T) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	_, port, _ := net.SplitHostPort(b.Address)
	b.cmd = exec.Command(filepath.Join(filepath.Dir(here), "../../../../scripts/kafka"), append([]string{"run", b.dir, port, b.settings}, b.users...)...)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := b.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel would take the end of the thread that starts it for ours.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready, said := make(chan bool, 1), make(chan string, 1)
	go func() {
		var last []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = append(last[max(0, len(last)-20):], lines.Text())
			if strings.Contains(lines.Text(), "Kafka Server started") {
				ready <- true
			}
		}
		said <- strings.Join(last, "\n")
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("the broker has ended:\n%s", <-said)
		}
	case <-time.After(brokerTimeout):
		b.Kill()
		t.Fatalf("the broker is not ready after %v", brokerTimeout)
	}
}

// Kill ends it without a warning.
func (b *Broker) Kill() {
	_ = b.cmd.Process.Signal(os.Kill)
	_ = b.cmd.Wait()
}

// Restart kills it and starts it again.
func (b *Broker) Restart(t *testing.T) {
	t.Helper()
	b.Kill()
	b.Start(t)
}
