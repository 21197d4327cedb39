// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/face/server/page"
)

// crowdPage keeps TestStreamsShareSamples serving a page of 1,000 workloads, for the measurements
// of scripts/browser.
var crowdPage = flag.String("page", "", "folder: serve the page of 1,000 workloads, with the socket weir.sock there, until the test is ended")

// audience is an agent in memory with many workloads, whose rates rise and fall. As the real
// agent it makes one sample a second for all streams, with a minute of history in the first.
type audience struct {
	*apitest.Fake
	every time.Duration

	mu      sync.Mutex
	readers map[chan api.Sample]bool
}

// audienceOf returns a audience of n workloads, in 20 groups by name. Its samples end with ctx.
func audienceOf(ctx context.Context, n int, every time.Duration) *audience {
	all := make([]api.Workload, n)
	for i := range all {
		all[i] = apitest.Workload(fmt.Sprintf("shop-%d-%04d", i%20, i), uint32(1+i%4), 0, 0, 0)
		all[i].Class = uint16(i + 1)
		all[i].ID = fmt.Sprintf("%064x", i)
	}
	c := &audience{Fake: apitest.New(all...), every: every, readers: map[chan api.Sample]bool{}}
	go c.run(ctx)
	return c
}

func (c *audience) run(ctx context.Context) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sample := c.sample(time.Now(), false)
		c.mu.Lock()
		for reader := range c.readers {
			select {
			case reader <- sample:
			default: // a slow reader loses samples
			}
		}
		c.mu.Unlock()
	}
}

func (c *audience) sample(now time.Time, history bool) api.Sample {
	list, _ := c.Fake.Workloads(context.Background()) // it does not fail
	status, _ := c.Fake.Status(context.Background())
	for i := range list {
		l := &list[i].Links[0]
		rate := func(at time.Time) float64 {
			return 1e5 * (1 + math.Sin(float64(at.UnixMilli())/1000/(5+float64(i%13))+float64(i)))
		}
		l.RateBps, l.IdealBps, l.OfferedBps, l.Share = rate(now), 1e5, rate(now), rate(now)/apitest.Capacity
		l.Delay = &api.Delay{P50Ms: 1, P99Ms: 2 + float64(i%50), MostMs: 90, Packets: 1000}
		l.BacklogPackets = uint64(l.RateBps) % 7
		if history {
			for ago := 59; ago >= 0; ago-- {
				l.HistoryBps = append(l.HistoryBps, rate(now.Add(-time.Duration(ago)*time.Second)))
			}
		}
	}
	return api.Sample{At: now.UTC(), Links: status.Links, Workloads: list, Groups: []api.Group{}}
}

// Subscribe implements api.Agent.
func (c *audience) Subscribe(ctx context.Context) <-chan api.Sample {
	reader := make(chan api.Sample, 4)
	reader <- c.sample(time.Now(), true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[reader] = true
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.readers, reader)
		close(reader)
	})
	return reader
}

// TestStreamsShareSamples: 20 streams of 1,000 workloads get the same events, and each
// sample is encoded once for all of them.
func TestStreamsShareSamples(t *testing.T) {
	patience := streamWrite
	defer func() { streamWrite = patience }()
	streamWrite = time.Minute // whatever else the computer does
	folder, every := t.TempDir(), 200*time.Millisecond
	if *crowdPage != "" {
		folder, every = *crowdPage, time.Second
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := New(audienceOf(ctx, 1000, every), Options{Socket: filepath.Join(folder, "weir.sock"), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Web: page.Config{Listen: []string{"127.0.0.1:0"}, Key: filepath.Join(folder, "web.key")}})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	if *crowdPage != "" {
		t.Log(<-served) // until the process is ended
		return
	}
	const streams, events = 20, 3
	var wg sync.WaitGroup
	for range streams {
		wg.Go(func() {
			conn, err := net.Dial("unix", s.opts.Socket)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /v1/stream HTTP/1.1\r\nHost: weir\r\n\r\n")
			lines, n := bufio.NewScanner(conn), 0
			lines.Buffer(nil, 8<<20)
			for n < events && lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					n++
				}
			}
			if n < events {
				t.Errorf("a stream ended after %d events: %v", n, lines.Err())
			}
		})
	}
	begun := time.Now()
	wg.Wait()
	s.encoded.mu.Lock()
	made := s.encoded.made
	s.encoded.mu.Unlock()
	if ticks := int(time.Since(begun)/every) + 2; made == 0 || made > ticks {
		t.Errorf("samples were encoded %d times in %d intervals", made, ticks)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
