// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"weir/internal/lab/meter"
)

// A reservation is one of payload, so the program that receives it counts it here:
//
//	e2e.test traffic take PORT...        TCP streams; prints what it has for each line of its stdin
const (
	takePort      = 7004
	otherTakePort = 7005
)

// taken has the payload that the program got so far.
type taken struct {
	At    time.Duration     `json:"at"`    // CLOCK_MONOTONIC
	Bytes map[string]uint64 `json:"bytes"` // payload, by sender's address and own port
}

// streamOf names what workload i sends to a port in network 0.
func streamOf(i, port int) string { return fmt.Sprintf("%s to %d", workloadAt(0, i).ip, port) }

func take(ports []string) error {
	var mu sync.Mutex
	got := map[string]uint64{}
	for _, port := range ports {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go serve(listener, func(conn net.Conn) {
			from := conn.RemoteAddr().(*net.TCPAddr).IP.String() + " to " + port
			for buf := make([]byte, 64<<10); ; {
				n, err := conn.Read(buf)
				mu.Lock()
				got[from] += uint64(n)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	out := json.NewEncoder(os.Stdout)
	tell := func() error {
		mu.Lock()
		defer mu.Unlock()
		return out.Encode(taken{meter.Now(), got})
	}
	err := tell() // "I listen"
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		err = tell()
	}
	return err
}

// taker is the program, running at the server.
type taker struct{ *process }

func (b *bed) takes(ports ...int) taker {
	b.t.Helper()
	args := []string{"take"}
	for _, port := range ports {
		args = append(args, fmt.Sprint(port))
	}
	k := taker{launch(b.srv, args...)}
	k.read()
	return k
}

// uploads starts a stream of all that workload i can send.
func (b *bed) uploads(i, port int) *process {
	b.t.Helper()
	return launch(b.boxes[i-1], "tcp", fmt.Sprintf("%s:%d", serverAt(0).ip, port))
}

func (k taker) read() (now taken) {
	k.t.Helper()
	line, err := k.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &now)
	}
	if err != nil {
		k.t.Fatalf("taker: %v", err)
	}
	return now
}

// now asks for what was taken so far.
func (k taker) now() taken {
	k.t.Helper()
	if _, err := io.WriteString(k.stdin, "\n"); err != nil {
		k.t.Fatal(err)
	}
	return k.read()
}

// since returns the rate of a stream's payload since an earlier account, bits per second.
func (t taken) since(before taken, stream string) float64 {
	return 8 * float64(t.Bytes[stream]-before.Bytes[stream]) / (t.At - before.At).Seconds()
}

// each returns the payload of a stream in each of n seconds from now on, bits per second.
func (k taker) each(n int, stream string) (rates []float64) {
	k.t.Helper()
	before := k.now()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for range n {
		<-second.C
		now := k.now()
		rates = append(rates, now.since(before, stream))
		before = now
	}
	return rates
}

// off returns how far rates are off a target: their mean, and the worst of them, as parts
// of the target.
func off(rates []float64, target float64) (mean, worst float64) {
	for _, r := range rates {
		e := r/target - 1
		mean += e / float64(len(rates))
		worst = max(worst, e, -e)
	}
	return mean, worst
}

// heldWithin fails the test if the payload of a stream is not at its target over some
// seconds, in the mean and in each of them.
func (k taker) heldWithin(t *testing.T, what string, n int, stream string, target, mean, worst float64) {
	t.Helper()
	rates := k.each(n, stream)
	gotMean, gotWorst := off(rates, target)
	t.Logf("%-24s %s of payload a second, %.3f reserved: off by %+.3f %%, in a second by %.2f %% at most",
		what+":", inMbit(scaled(rates, 1e-6)), target/1e6, 100*gotMean, 100*gotWorst)
	if max(gotMean, -gotMean) > mean || gotWorst > worst {
		t.Errorf("%s: should be within %.1f %%, and within %.1f %% in each second", what, 100*mean, 100*worst)
	}
}

func scaled(list []float64, by float64) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = v * by
	}
	return out
}
