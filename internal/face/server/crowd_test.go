// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/base/audit"
	"weir/internal/face/server/page"
	"weir/internal/face/server/page/pagetest"
)

// The bars: beside a viewer and a stranger who ask for as much as they can, root waits for no
// answer longer than patience; for one of ten, or one for which all of the log is read, longer
// on a machine that has other work.
const (
	patience    = time.Second
	busy        = 5 * time.Second
	viewerRate  = 1000 // requests a second
	strangerMin = 2500 // connections a second, without which nothing is shown

	readsAll = "weir audit OBJECT"
)

// largeLog makes an audit log of 144 MB, as large as one can be.
func largeLog(t *testing.T) *audit.Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	line := `{"time":"2026-11-22T00:00:00Z","who":{"via":"socket","uid":0,"user":"root"},"action":"set-policy","object":"web","result":"done","reason":"` + strings.Repeat("because ", 20) + `"}` + "\n"
	text := []byte(strings.Repeat(line, (16<<20-1<<16)/len(line)))
	for i := range 9 {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		if err := os.WriteFile(name, text, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return audit.New(path, quiet())
}

// flood opens connections to a port without a word, as fast as one thread can, until ctx ends.
// It keeps some of them open. It returns how many a second those were.
func flood(ctx context.Context, t *testing.T, at netip.AddrPort) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	to := &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	var open [3000]int
	begun, n := time.Now(), 0
	shut := func(fd int) {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // leaves no port behind
		unix.Close(fd)
	}
	for ; ctx.Err() == nil; n++ {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			break
		}
		if old := &open[n%len(open)]; *old != 0 {
			shut(*old)
		}
		open[n%len(open)] = fd
		_ = unix.Connect(fd, to) // fails while the port's queue is full
	}
	for _, fd := range open {
		if fd != 0 {
			shut(fd)
		}
	}
	return float64(n) / time.Since(begun).Seconds()
}

// pester has a viewer read the audit log on 30 connections, and ask for links and for what
// there is, so many requests a second.
func pester(ctx context.Context, t *testing.T, running *sync.WaitGroup, socket string, rate int) *atomic.Int64 {
	var sent atomic.Int64
	client := over(t, socket)
	ask := func(path string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://weir"+path, nil)
		if err != nil {
			return
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			sent.Add(1)
		}
	}
	for range 30 {
		running.Go(func() {
			for ctx.Err() == nil {
				ask("/v1/audit?object=zzz")
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	const workers = 10
	for i := range workers {
		running.Go(func() {
			tick := time.NewTicker(time.Second * workers / time.Duration(rate))
			defer tick.Stop()
			for n := i; ctx.Err() == nil; n++ {
				ask([]string{"/v1/web", "/v1/status", "/v1/workloads"}[n%3])
				<-tick.C
			}
		})
	}
	return &sent
}

// TestOthersKeepRootOutOfNothing: root asks for a link, opens it, looks at the page with the
// token, and reads the audit log, each within patience, beside a viewer and a stranger.
func TestOthersKeepRootOutOfNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s, root := startWith(t, apitest.New(apitest.Demo()...), Options{Audit: largeLog(t), Group: "root", ViewGroup: viewGroup,
		Web: page.Config{Listen: []string{"127.0.0.1:0"}, Key: t.TempDir() + "/web.key"}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	begun := time.Now()
	sent := pester(ctx, t, &running, api.ViewSocket(s.opts.Socket), viewerRate)
	var rate float64
	running.Go(func() { rate = flood(ctx, t, netip.MustParseAddrPort(s.WebAddr())) })
	time.Sleep(500 * time.Millisecond)
	waits := map[string][]time.Duration{}
	within := func(what string, do func()) {
		t.Helper()
		begun := time.Now()
		do()
		waits[what] = append(waits[what], time.Since(begun))
	}
	for range 10 {
		var link api.WebLink
		var token string
		var err error
		within("a link", func() { link, err = root.Web(t.Context()) })
		within("its session", func() { token = pagetest.Open(t, s.WebAddr(), link, err) })
		http.DefaultClient.CloseIdleConnections() // so that the next is a connection of its own
		within("the page", func() {
			if status, answer := pagetest.Ask(t, s.WebAddr(), http.MethodGet, "/v1/status", token, ""); status != http.StatusOK {
				t.Errorf("status %d: %s", status, answer)
			}
		})
		within("weir audit", func() {
			if list, err := root.Audit(t.Context(), audit.Query{Limit: 1000}); err != nil || len(list) != 1000 {
				t.Errorf("%d entries, %v", len(list), err)
			}
		})
		within(readsAll, func() {
			if _, err := root.Audit(t.Context(), audit.Query{Object: "zzzz"}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	running.Wait()
	t.Logf("stranger: %.0f connections a second; viewer: %.0f requests a second", rate, float64(sent.Load())/time.Since(begun).Seconds())
	for what, took := range waits {
		slices.Sort(took)
		last, most := took[len(took)-1], took[len(took)-2]
		t.Logf("%s: %v, of ten %v at most", what, most, last)
		if last > busy || most > patience && what != readsAll {
			t.Errorf("%s takes %v", what, took)
		}
	}
	if rate < strangerMin {
		t.Logf("a stranger on this machine makes less than %d connections a second: the bar is not tried", strangerMin)
	}
}
