// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
	"weir/internal/core/refusal"
)

var start = time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reading is one of eth0, with classes 1, 2, ... of web, batch, which is in the group office,
// and cam.
func reading(epoch string, bytes ...uint64) Reading {
	owners := []Owner{{Key: "docker:web", Name: "web"}, {Key: "docker:batch", Name: "batch", Group: "office"}, {Key: "docker:cam", Name: "cam"}}
	r := Reading{Link: "eth0", Direction: policy.Egress, Epoch: epoch}
	for i, n := range bytes {
		r.Classes = append(r.Classes, Class{ID: plan.ClassID(i + 1), Owner: owners[i], Bytes: n})
	}
	return r
}

func sent(t *testing.T, l *Ledger, key string) uint64 {
	t.Helper()
	n, _, err := l.History().Sum(key, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTake(t *testing.T) {
	owned := func(r Reading, o Owner) Reading { r.Classes[0].Owner = o; return r }
	last := func(r Reading) Reading { // the last one of class 1, whose number another workload has at once
		r.Classes[0].Owner, r.Classes[0].Gone = Owner{}, true
		return r
	}
	inward := func(r Reading) Reading { r.Direction = policy.Ingress; return r }
	for _, tt := range []struct {
		name     string
		readings []Reading
		want     map[string]uint64
	}{
		{"growth counts, what was before the first reading does not", []Reading{reading("a", 500), reading("a", 700), reading("a", 1700)}, map[string]uint64{"docker:web": 1200}},
		{"a class that comes later counts from 0", []Reading{reading("a", 500), reading("a", 500, 70)}, map[string]uint64{"docker:batch": 70, "group:office": 70}},
		{"a class that was made anew counts from 0", []Reading{reading("a", 500), reading("a", 900), reading("a", 60)}, map[string]uint64{"docker:web": 460}},
		{"another boot counts from 0, though the counter is ahead", []Reading{reading("a", 500), reading("b", 900)}, map[string]uint64{"docker:web": 900}},
		{"a class that goes and comes back", []Reading{reading("a", 5, 500), reading("a", 5), reading("a", 5, 20)}, map[string]uint64{"docker:batch": 20, "group:office": 20}},
		{"a class without an owner is of the one before", []Reading{reading("a", 500), owned(reading("a", 600), Owner{})}, map[string]uint64{"docker:web": 100}},
		{"a number that another workload has now", []Reading{reading("a", 500), owned(reading("a", 600), Owner{Key: "docker:new", Name: "new"})}, map[string]uint64{"docker:new": 100, "docker:web": 0}},
		{"a class that is read for the last time, and one of the same number with as many bytes", []Reading{reading("a", 0), last(reading("a", 500)), reading("a", 500)}, map[string]uint64{"docker:web": 1000}},
		{"directions are counted apart", []Reading{reading("a", 500), inward(reading("a", 9000)), reading("a", 600)}, map[string]uint64{"docker:web": 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t, t.TempDir())
			for _, r := range tt.readings {
				l.Take(start, r)
			}
			for key, want := range tt.want {
				if got := sent(t, l, key); got != want {
					t.Errorf("%s sent %d bytes, want %d", key, got, want)
				}
			}
		})
	}
}

// An agent that is killed at any moment, a hundred times, loses nothing while the kernel's
// classes stay.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	at, counter := start, uint64(0)
	l := open(t, dir)
	l.Take(at, reading("boot", 0))
	l.WriteDue(at)
	for range 100 {
		for range random.IntN(40) {
			at = at.Add(time.Second)
			counter += random.Uint64N(12_500_000)
			l.Take(at, reading("boot", counter))
			l.WriteDue(at)
		}
		at = at.Add(time.Duration(random.IntN(300)) * time.Second)
		counter += random.Uint64N(1e9) // while no agent runs
		l = open(t, dir)               // killed: nothing is written
	}
	l.Take(at, reading("boot", counter))
	if got := sent(t, l, "docker:web"); got != counter {
		t.Errorf("%d bytes, the kernel sent %d", got, counter)
	}
}

// What the kernel no longer holds is on the disk at once.
func TestKilledAfterAClassWent(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	l.Take(start, reading("a", 0, 0))
	l.WriteDue(start)
	at := start.Add(time.Second)
	l.Take(at, reading("a", 10, 700))
	l.WriteDue(at)
	at = at.Add(time.Second)
	l.Take(at, reading("a", 20)) // batch has stopped
	l.WriteDue(at)
	l = open(t, dir)
	if got := sent(t, l, "docker:batch"); got != 700 {
		t.Errorf("%d bytes of batch after the kill, want 700", got)
	}
}

// As many classes as before are not the same ones.
func TestKilledAfterAClassTookThePlaceOfAnother(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	only := func(i int, bytes uint64) Reading {
		r := reading("a", 0, 0, 0)
		r.Classes = r.Classes[i : i+1]
		r.Classes[0].Bytes = bytes
		return r
	}
	for i, r := range []Reading{only(0, 0), only(1, 700), only(2, 5)} {
		at := start.Add(time.Duration(i) * time.Second)
		l.Take(at, r)
		l.WriteDue(at)
	}
	l = open(t, dir)
	if got := sent(t, l, "docker:batch"); got != 700 {
		t.Errorf("%d bytes of batch after the kill, want 700", got)
	}
}

// Days and hours, with a clock that is set back and forth, over a night in which Berlin's
// clocks go forward.
func TestHoursAndDays(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	counter := uint64(0)
	take := func(at time.Time, bytes uint64) {
		counter += bytes
		l.Take(at, reading("a", counter))
		l.WriteDue(at)
	}
	take(start, 0)
	take(start, 1)                        // 22:30 UTC, 23:30 in Berlin
	take(start.Add(time.Hour), 10)        // 23:30, the next day in Berlin
	take(start.Add(2*time.Hour), 100)     // 00:30 of 2026-03-29
	take(start.Add(-48*time.Hour), 1000)  // the clock is set back
	take(start.Add(24*time.Hour), 10_000) // and right again: 22:30 UTC, 00:30 of the 30th in Berlin
	l = open(t, dir)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	list := func(q api.UsageQuery) string {
		u, err := l.History().Usage(t.Context(), q, berlin)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, r := range u.Rows {
			if r.Kind == api.UsageOfWorkload {
				at := ""
				if r.At != nil {
					at = r.At.In(berlin).Format("01-02 15:04 ")
				}
				text += fmt.Sprintf("%s%s %d\n", at, r.Name, r.SentBytes)
			}
		}
		return text
	}
	// The file of the present day was last written a day before: what came since is lost to
	// this ledger, as after a kill, and comes with the next reading.
	l.Take(start.Add(24*time.Hour), reading("a", counter))
	for _, tt := range []struct {
		q    api.UsageQuery
		want string
	}{
		{api.UsageQuery{}, "web 11111\n"},
		{api.UsageQuery{By: "day"}, "03-26 00:00 web 1000\n03-28 00:00 web 1\n03-29 00:00 web 110\n03-30 00:00 web 10000\n"},
		{api.UsageQuery{By: "hour", Since: start}, "03-28 23:00 web 1\n03-29 00:00 web 10\n03-29 01:00 web 100\n03-30 00:00 web 10000\n"},
		{api.UsageQuery{Since: start.Add(time.Hour), Until: start.Add(3 * time.Hour)}, "web 110\n"},
		{api.UsageQuery{Object: "batch"}, ""},
	} {
		if got := list(tt.q); got != tt.want {
			t.Errorf("%+v:\n%s\nwant\n%s", tt.q, got, tt.want)
		}
	}
	for _, bad := range []api.UsageQuery{{By: "week"}, {Since: start, Until: start}} {
		if _, err := l.History().Usage(t.Context(), bad, berlin); err == nil {
			t.Errorf("%+v is answered", bad)
		}
	}
}

// A file that cannot be read is put aside, and one that cannot be written is no reason to stop.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "now.json"), []byte(`{"version": 1, "day": "20`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "now.json.damaged")); err != nil {
		t.Error(err)
	}
	l.Take(start, reading("a", 0))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	l.Take(start.Add(time.Second), reading("a", 7))
	l.WriteDue(start.Add(time.Second))
	l.Take(start.Add(26*time.Hour), reading("a", 9)) // the day cannot be written
	if got := sent(t, l, "docker:web"); got != 9 {
		t.Errorf("%d bytes without a disk, want 9", got)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.WriteDue(start.Add(27 * time.Hour))
	if l = open(t, dir); sent(t, l, "docker:web") != 9 {
		t.Errorf("%d bytes once the disk is back, want 9", sent(t, l, "docker:web"))
	}
}

// TestQuotaBesideManyNames: thousands of containers that come and go take no row from a workload
// with a quota, which finds what it has used when it comes back; the rows stay bounded.
func TestQuotaBesideManyNames(t *testing.T) {
	l := open(t, t.TempDir())
	l.Take(start, reading("a", 0))
	crowd := reading("a")
	for i := range 3 * maxRows {
		name := fmt.Sprintf("c%d", i)
		crowd.Classes = append(crowd.Classes, Class{ID: plan.ClassID(10 + i), Owner: Owner{Key: "docker:" + name, Name: name}, Bytes: 1})
	}
	l.Take(start, crowd)
	limited := map[string]quota.Quota{"docker:web": {Total: 1000, Per: quota.Day, Then: quota.ThenTell}}
	l.Follow(start, limited)
	l.Take(start, reading("a", 700))
	l.Follow(start, nil) // it has stopped
	if s := l.Follow(start, limited)["docker:web"]; s.Sent != 700 {
		t.Errorf("it comes back with %d bytes used, want 700", s.Sent)
	}
	for _, c := range crowd.Classes {
		l.book.quotas[c.Owner.Key] = &account{Start: start}
	}
	for i := range crowd.Classes {
		crowd.Classes[i].Bytes++
	}
	l.Take(start, crowd)
	if n := len(l.book.rows); n > 2*maxRows+1 {
		t.Errorf("%d rows", n)
	}
}

// 100 workloads of ten groups that send and receive all the time by one link of 10 Gbit/s, for
// more than the days that are kept.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	owners := make([]Owner, 100)
	for i := range owners {
		owners[i] = Owner{Key: fmt.Sprintf("docker:service-%03d", i), Name: fmt.Sprintf("service-%03d", i), Group: fmt.Sprintf("tenant-%d", i%10)}
	}
	counter := uint64(0)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 24 * (keepDays + 20) {
		for _, direction := range []policy.Direction{policy.Egress, policy.Ingress} {
			r := Reading{Link: "eth0", Direction: direction, Epoch: "a"}
			for i, o := range owners {
				r.Classes = append(r.Classes, Class{ID: plan.ClassID(i + 1), Owner: o, Bytes: counter})
			}
			l.Take(at, r)
		}
		at, counter = at.Add(time.Hour), counter+45e9+uint64(at.Unix()%1e9)
	}
	l.Write(at)
	var size, files int64
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size, files = size+(info.Size()+4095)/4096*4096, files+1
	}
	t.Logf("%d files, %.1f MB on the disk", files, float64(size)/1e6)
	if files != keepDays+1 || size > 50e6 {
		t.Errorf("%d files of %d bytes; at most %d of 50 MB", files, size, keepDays+1)
	}
	begun := time.Now()
	if _, err := l.History().Usage(t.Context(), api.UsageQuery{By: "day"}, time.UTC); err != nil {
		t.Error(err)
	}
	t.Logf("all of it by day in %v", time.Since(begun).Round(time.Millisecond))
}

// TestAnswersAreBounded: a question whose answer would be too long takes no more memory than the
// longest answer: a user who may only look asks it.
func TestAnswersAreBounded(t *testing.T) {
	l := open(t, t.TempDir())
	l.Take(start, reading("a", 0))
	const days = 60
	for n := range days {
		d := day{Date: dateOf(start.AddDate(0, 0, -1-n))}
		for i := range maxRows {
			name := fmt.Sprintf("job-%d-%d", n, i)
			d.Rows = append(d.Rows, row{series{"docker:" + name, name, "eth0", policy.Egress}, hours{1}})
		}
		if err := l.writeDay(d); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := l.History().Usage(t.Context(), api.UsageQuery{}, time.UTC)
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MB", allocated>>20)
	if !refusal.Is(err, refusal.Invalid) || allocated > 200<<20 {
		t.Errorf("%v, %d MB were allocated", err, allocated>>20)
	}
}

// history makes a ledger with 60 days of many rows, of which one is web's, with 1,000 bytes each
// day.
func history(t testing.TB, rows int) *Ledger {
	t.Helper()
	l, err := Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		d := day{Date: dateOf(start.AddDate(0, 0, -n))}
		for i := range rows {
			key := fmt.Sprintf("docker:c%d", i)
			if i == 0 {
				key = "docker:web"
			}
			d.Rows = append(d.Rows, row{series{key, key, "eth0", policy.Egress}, hours{22: 1000}})
		}
		if err := l.writeDay(d); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// standing follows the quota of web until all of it is known.
func standing(t *testing.T, l *Ledger, at time.Time, q quota.Quota) quota.Standing {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s := l.Follow(at, map[string]quota.Quota{"docker:web": q})["docker:web"]
		if !l.book.quotas["docker:web"].Partial {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s")
		}
	}
}

// The start of a workload with a quota never waits for the files of days that are over, and one
// that has ended and comes back has none read.
func TestStartsReadNoDays(t *testing.T) {
	q, err := quota.Parse("egress 1GB per month then tell")
	if err != nil {
		t.Fatal(err)
	}
	l := history(t, 2000)
	l.Take(start, reading("a", 500)) // where counting begins
	begin := time.Now()
	l.Follow(start, map[string]quota.Quota{"docker:web": q})
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("a first start took %v", took)
	}
	l.Take(start, reading("a", 507))                        // while the files are read
	if s := standing(t, l, start, q); s.Sent != 28*1000+7 { // of March
		t.Errorf("%d bytes", s.Sent)
	}
	l.Follow(start, nil) // it has ended
	l.Take(start, reading("a", 517))
	if err := os.RemoveAll(l.dir); err != nil { // what is read now is not found
		t.Fatal(err)
	}
	if s := l.Follow(start, map[string]quota.Quota{"docker:web": q})["docker:web"]; s.Sent != 28*1000+17 || l.book.quotas["docker:web"].Partial {
		t.Errorf("back: %d bytes", s.Sent)
	}
	l.Follow(start.AddDate(0, 0, 5), nil)
	if len(l.book.quotas) > 0 {
		t.Errorf("after the period: %v", l.book.quotas)
	}
}

// An agent that ends while the files are read leaves it to the next one. A workload that goes and
// comes back meanwhile is counted once.
func TestPartialAccounts(t *testing.T) {
	q, err := quota.Parse("egress 1GB per month then tell")
	if err != nil {
		t.Fatal(err)
	}
	l := history(t, 10)
	l.Take(start, reading("a", 500))
	wanted := map[string]quota.Quota{"docker:web": q}
	l.Follow(start, wanted)
	l.Take(start, reading("a", 505))
	l.Write(start)
	next := open(t, l.dir)
	next.Take(start, reading("a", 507))
	if s := standing(t, next, start, q); s.Sent != 28*1000+7 {
		t.Errorf("the next agent: %d bytes", s.Sent)
	}
	<-time.After(50 * time.Millisecond)
	l = history(t, 10)
	l.Take(start, reading("a", 500))
	l.Follow(start, wanted)
	l.Take(start, reading("a", 505))
	l.Follow(start, nil)
	l.Follow(start, wanted)
	l.Take(start, reading("a", 507))
	if s := standing(t, l, start, q); s.Sent != 28*1000+7 {
		t.Errorf("gone and back: %d bytes", s.Sent)
	}
}

// The accounts of workloads that are not there are bounded; those that have used the least go.
func TestAccountsAreBounded(t *testing.T) {
	q, err := quota.Parse("egress 1GB per month then tell")
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, t.TempDir())
	wanted := map[string]quota.Quota{}
	for n := range mostAccounts + 10 {
		wanted[fmt.Sprintf("docker:c%d", n)] = q
	}
	l.Follow(start, wanted)
	for n := range mostAccounts + 10 {
		l.book.quotas[fmt.Sprintf("docker:c%d", n)].Sent = uint64(n)
	}
	l.Follow(start, nil)
	if n := len(l.book.quotas); n != mostAccounts || l.book.quotas["docker:c9"] != nil || l.book.quotas["docker:c10"] == nil {
		t.Errorf("%d accounts", n)
	}
}
