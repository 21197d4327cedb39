// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane/hosttest"
	"weir/internal/host/dataplane/mark/marktest"
)

const mbit = hosttest.Mbit

// bed is a host whose containers send by the tc backend.
type bed struct{ *hosttest.Host }

func newBed(t *testing.T, containers int) *bed {
	t.Helper()
	if err := Supported(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	return &bed{hosttest.New(t, containers)}
}

func (b *bed) backend() *Backend {
	b.T.Helper()
	backend, err := New("up0", b.Opts, b.Log())
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { backend.Close() })
	return backend
}

// state is a link of 100 Mbit/s with classes of the containers.
func (b *bed) state(classes ...plan.Class) plan.State {
	return b.State(plan.Link{Capacity: 100 * mbit}, classes...)
}

// run runs the backend's loop until the test ends or the returned function is
// called.
func (b *bed) run(backend *Backend) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- backend.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.T.Error(err)
		}
	}
	b.T.Cleanup(stop)
	return stop
}

// traffic starts an iperf3 from container i (1, 2, ...) to the server and returns
// a function that ends it and gives what the client printed.
func (b *bed) traffic(i int, args ...string) (stop func() string) {
	b.T.Helper()
	if _, err := exec.LookPath("iperf3"); err != nil {
		b.T.Skip("skipped: needs iperf3")
	}
	port := fmt.Sprint(5200 + i)
	server := b.Server.Command("iperf3", "-s", "-p", port, "--forceflush")
	output, err := server.StdoutPipe()
	if err != nil {
		b.T.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { end(server) })
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "listening") {
			break
		}
	}
	go func() { // an unread pipe would stop the server
		for buf := make([]byte, 4096); ; {
			if _, err := output.Read(buf); err != nil {
				return
			}
		}
	}()
	var printed bytes.Buffer
	client := b.Boxes[i-1].Command(append([]string{"iperf3", "-c", "10.77.0.254", "-p", port, "-t", "100"}, args...)...)
	client.Stdout, client.Stderr = &printed, &printed
	if err := client.Start(); err != nil {
		b.T.Fatal(err)
	}
	stopped := false
	stop = func() string {
		if !stopped {
			stopped = true
			end(client)
		}
		return printed.String()
	}
	b.T.Cleanup(func() { stop() })
	return stop
}

// end asks a process to end and waits for it; it may have ended by itself.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
}

// rates measures what each class sends, over a window that begins after settle.
func (b *bed) rates(backend *Backend, settle, window time.Duration) map[plan.ClassID]float64 {
	b.T.Helper()
	<-time.After(settle)
	from := b.Counters(backend)
	<-time.After(window)
	to := b.Counters(backend)
	rates := make(map[plan.ClassID]float64)
	for id, c := range to.Classes {
		sent := c.SentBytes - from.Classes[id].SentBytes
		rates[id] = float64(sent) * 8 / to.At.Sub(from.At).Seconds() / 1e6
	}
	return rates
}

// ideal is what the contract gives classes that take all they can get, in Mbit/s.
func ideal(s plan.State, active ...plan.ClassID) map[plan.ClassID]float64 {
	var sharers []policy.Sharer
	for _, id := range active {
		c, _ := s.Class(id)
		sharers = append(sharers, policy.Sharer{Weight: c.Weight, Min: c.Min, Max: c.Max, Demand: policy.Unlimited})
	}
	out := make(map[plan.ClassID]float64)
	for i, share := range policy.Divide(s.Link.Capacity, sharers).Shares {
		out[active[i]] = share.Bps / 1e6
	}
	return out
}

// full measures like rates, until it finds a window in which the link is full to
// 97 %, or has tried four times. Otherwise the result would say how much CPU time
// iperf3 got beside other programs, not how the link is divided.
func (b *bed) full(backend *Backend, settle, window time.Duration, want map[plan.ClassID]float64) map[plan.ClassID]float64 {
	b.T.Helper()
	var got map[plan.ClassID]float64
	for range 4 {
		got = b.rates(backend, settle, window)
		var sent, ideal float64
		for id := range want {
			sent += got[id]
			ideal += want[id]
		}
		if sent > 0.97*ideal {
			return got
		}
		b.T.Logf("the senders fill only %.1f of %.1f Mbit/s, measuring again", sent, ideal)
	}
	return got
}

// near measures rates and checks them against ideal ones, all in Mbit/s.
func (b *bed) near(what string, backend *Backend, settle, window time.Duration, want map[plan.ClassID]float64, tolerance float64) {
	b.T.Helper()
	got := b.full(backend, settle, window, want)
	line := what + ":"
	for id := plan.ClassID(0); id < plan.MaxClasses; id++ {
		ideal, ok := want[id]
		if !ok {
			continue
		}
		line += fmt.Sprintf("  class %d %.2f (ideal %.2f)", id, got[id], ideal)
		if got[id] < ideal-tolerance || got[id] > ideal+tolerance {
			b.T.Errorf("%s: class %d sends %.2f Mbit/s, want %.2f +- %.1f", what, id, got[id], ideal, tolerance)
		}
	}
	b.T.Log(line)
}

// runOn runs a classifier on a packet with a mark and returns its verdict.
func runOn(t *testing.T, prog *ebpf.Program, mark, tcIndex uint32) uint32 {
	t.Helper()
	prog = marktest.Sealed(t, prog, ebpf.AttachNone)
	context := make([]byte, 192) // struct __sk_buff, of which mark is at 8
	binary.NativeEndian.PutUint32(context[8:], mark)
	binary.NativeEndian.PutUint32(context[marktest.CB:], tcIndex)
	verdict, err := prog.Run(&ebpf.RunOptions{Data: make([]byte, 64), Context: context})
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}
