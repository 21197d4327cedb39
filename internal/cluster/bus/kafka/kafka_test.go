// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/cluster/wire"
)

const startTimeout = 2 * time.Minute // a busy machine, and the first time the fetch

// bed is a real broker.
type bed struct {
	script string
	dir    string
	port   int
	cmd    *exec.Cmd
}

func newBed(t *testing.T) *bed {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s, so no broker: scripts/deps cluster installs it", tool)
		}
	}
	script, err := filepath.Abs("../../../../scripts/kafka")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{script: script, dir: t.TempDir(), port: freePorts(t)}
	b.start(t)
	t.Cleanup(b.kill)
	return b
}

// freePorts finds two neighbours.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 50 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := a.Addr().(*net.TCPAddr).Port
		b, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		a.Close()
		if err == nil {
			b.Close()
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

func (b *bed) start(t *testing.T) {
	t.Helper()
	b.cmd = exec.Command(b.script, "run", b.dir, fmt.Sprint(b.port))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := b.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan bool, 1)
	var last []string
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = append(last[max(0, len(last)-20):], lines.Text())
			if strings.Contains(lines.Text(), "Kafka Server started") {
				ready <- true
			}
		}
		close(ready)
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("the broker has ended:\n%s", strings.Join(last, "\n"))
		}
	case <-time.After(startTimeout):
		b.kill()
		t.Fatalf("the broker is not ready after %v", startTimeout)
	}
}

func (b *bed) kill() {
	_ = b.cmd.Process.Signal(os.Kill)
	_ = b.cmd.Wait()
}

// Restart kills the broker without a warning.
func (b *bed) Restart(t *testing.T) {
	t.Helper()
	b.kill()
	b.start(t)
}

func (b *bed) Manager(t *testing.T) bus.Admin {
	t.Helper()
	return b.connect(t, wire.Manager, &bustest.Cable{})
}

func (b *bed) Node(t *testing.T, name string, cable *bustest.Cable) bus.Bus {
	t.Helper()
	return b.connect(t, name, cable)
}

func (b *bed) connect(t *testing.T, name string, cable *bustest.Cable) *Bus {
	t.Helper()
	c, err := dial([]string{fmt.Sprintf("127.0.0.1:%d", b.port)}, name,
		func(_ context.Context, network, address string) (net.Conn, error) {
			return cable.Dial(network, address)
		},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestBus(t *testing.T) { bustest.Run(t, newBed(t)) }

// TestNoBroker: what cannot be reached is said within the time that is given, and
// closing does not hang.
func TestNoBroker(t *testing.T) {
	b := &bed{port: freePorts(t)}
	c := b.connect(t, "a", &bustest.Cable{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Subscribe(ctx, "a", "L.a", func(context.Context, bus.Message) error { return nil }) }()
	begun := time.Now()
	err := c.Publish(ctx, "M.a", "1", nil)
	if err == nil || time.Since(begun) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if c.Connected() {
		t.Error("is connected")
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the subscription hangs")
	}
	c.Close()
}
