// SPDX-License-Identifier: Apache-2.0

// Package strangertest attacks a program's port as a stranger does who reaches it: requests to
// every route with hostile bodies, long headers and paths, bodies without a length, and
// connections that begin and stand still. Meanwhile it watches what the program's process grows
// by, and how long a request of a member takes. Example:
//
//	strangertest.Attack(t, strangertest.Port{Address: "127.0.0.1:7473", Pid: pid, Paths: paths, Member: ask})
package strangertest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The bars.
const (
	MostGrowth  = 64 << 20    // bytes of resident memory
	MemberWaits = time.Second // for 95 % of a member's requests
)

// attackers send at the same time.
const attackers = 8

// Port is what is attacked.
type Port struct {
	Address string
	Clear   bool         // it speaks no TLS
	Pid     int          // of the program
	Paths   []string     // its routes; others are added
	Bodies  int          // how many are sent
	Member  func() error // makes a request that has to be served
	// Body draws a body that the routes may look into, for some of the requests; nil = none.
	Body func(r *rand.Rand, long string) string
}

// Attack attacks, and fails the test where a bar is not held.
func Attack(t *testing.T, p Port) {
	t.Helper()
	for range 20 {
		if err := p.Member(); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	before := Resident(t, p.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	var most atomic.Int64
	var watching, attacking sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			most.Store(max(most.Load(), Resident(t, p.Pid)))
			time.Sleep(10 * time.Millisecond)
		}
	})
	var waits []time.Duration
	watching.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			if err := p.Member(); err != nil {
				t.Errorf("a member: %v", err)
			}
			waits = append(waits, time.Since(begun))
			time.Sleep(50 * time.Millisecond)
		}
	})
	begun := time.Now()
	for i := range uint64(attackers) {
		attacking.Go(func() {
			s := stranger{Port: p, random: rand.New(rand.NewPCG(seed, i)), client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
			for range p.Bodies / attackers {
				s.attack(ctx)
			}
			s.hangUp()
		})
	}
	attacking.Wait()
	took := time.Since(begun)
	cancel()
	watching.Wait()
	slices.Sort(waits)
	late := waits[len(waits)*95/100]
	t.Logf("seed %d: %d bodies in %v; memory %d MB, and %d MB at most; %d requests of a member: %v in the middle, %v of 95 %%, %v at most",
		seed, p.Bodies, took.Round(time.Millisecond), before>>20, most.Load()>>20, len(waits), waits[len(waits)/2], late, waits[len(waits)-1])
	if grown := most.Load() - before; grown > MostGrowth {
		t.Errorf("memory grows by %d MB", grown>>20)
	}
	if late > MemberWaits {
		t.Errorf("a member waits for %v", late)
	}
}

// Resident returns the resident memory of a process in bytes; 0, and a failure, if it has ended.
func Resident(t testing.TB, pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10
		}
	}
	t.Errorf("process %d has ended", pid)
	return 0
}

// stranger is one of the attackers.
type stranger struct {
	Port
	random *rand.Rand
	client *http.Client
	slow   []net.Conn // that stand still
}

// attack sends one request, or begins one and lets it stand half sent.
func (s *stranger) attack(ctx context.Context) {
	r := s.random
	method := []string{"POST", "POST", "POST", "PUT", "PATCH", "GET", "DELETE"}[r.IntN(7)]
	paths := append(slices.Clone(s.Paths), "/openapi.json", "/v1/"+strings.Repeat("x", r.IntN(20<<10)))
	path, body := paths[r.IntN(len(paths))], s.body()
	if r.IntN(20) == 0 {
		s.begin(ctx, method, path, body)
		return
	}
	scheme := "https://"
	if s.Clear {
		scheme = "http://"
	}
	q, err := http.NewRequestWithContext(ctx, method, scheme+s.Address+path, strings.NewReader(body))
	if err != nil {
		return
	}
	q.Header.Set("Content-Type", []string{"application/json", "application/json", "application/vnd.x+json", "text/yaml", ""}[r.IntN(5)])
	if r.IntN(10) == 0 {
		q.Header.Set("X-Long", strings.Repeat("h", r.IntN(40<<10)))
	}
	if r.IntN(3) == 0 {
		q.ContentLength = -1
	}
	if resp, err := s.client.Do(q); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// begin opens a connection that stands still: before anything was sent, or in the middle of a
// body.
func (s *stranger) begin(ctx context.Context, method, path, body string) {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return
	}
	s.slow = append(s.slow, conn)
	if s.random.IntN(2) == 0 {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var to io.Writer = conn
	if !s.Clear {
		to = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	_, _ = fmt.Fprintf(to, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%.100s", method, path, 1<<s.random.IntN(40), body)
}

func (s *stranger) hangUp() {
	for _, conn := range s.slow {
		conn.Close()
	}
}

// body draws a body: nested, repeated, long, or of no JSON at all.
func (s *stranger) body() string {
	r := s.random
	n := 1 << r.IntN(17)
	unit := []string{"[", `{"a":`, `[{"a":[`, "[],", "0,", `"\u0000",`, "1e9999999,", strings.Repeat("9", 400) + ",", "{},", "\x00", "- ", "&a [*a,", `{"` + strings.Repeat("k", 1000) + `":1},`}[r.IntN(13)]
	long := strings.Repeat(unit, max(1, n/len(unit)))
	switch choice := r.IntN(6); {
	case choice == 0:
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	case choice < 4 && s.Body != nil:
		return s.Body(r, long)
	}
	return long
}
