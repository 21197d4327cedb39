// SPDX-License-Identifier: Apache-2.0

// Package boundtest holds code to what one input from outside may cost (bound.Memory, bound.CPU),
// and has the inputs that cost parsers most. A fuzz target looks like this:
//
//	boundtest.Seeds[string](f, bound.Label, "weir.queues=")
//	f.Fuzz(func(t *testing.T, text string) {
//		boundtest.Hold(t, func() { parse(text) })
//	})
//
// What counts as memory is what the process allocates during the call, whether it keeps it or
// not; as CPU time what the calling thread uses. The collector of garbage is off meanwhile, so
// that its work counts for none of the two.
package boundtest

import (
	"flag"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/bound"
)

// Cost is what a call has cost.
type Cost struct {
	Bytes int64         // allocated
	CPU   time.Duration // of the thread
}

// stopAt is the heap at which the collector runs all the same, so that a target that allocates
// without bound ends in a failure, not with the machine.
const stopAt = 1 << 30

// Measure returns what a call costs. Goroutines that it starts count for memory alone.
func Measure(call func()) (cost Cost) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(stopAt)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	bytes, cpu := allocated(), threadTime()
	call()
	return Cost{Bytes: allocated() - bytes, CPU: threadTime() - cpu}
}

// Hold makes a call and fails the test if that costs more than one input may. The least time of
// several calls counts (Least).
func Hold(t testing.TB, call func()) {
	t.Helper()
	cost := Measure(call)
	if cost.Bytes > bound.Memory {
		t.Errorf("allocates %d MB, %d are the most", cost.Bytes>>20, bound.Memory>>20)
	}
	most := slower * bound.CPU
	if fuzzing() {
		most *= fuzzed
	}
	if cost.CPU > most {
		cost.CPU = min(cost.CPU, Least(most, func() time.Duration { return Measure(call).CPU }))
	}
	if cost.CPU > most {
		t.Errorf("takes %v of CPU time, %v are the most", cost.CPU, most)
	}
}

// fuzzed is how many times the time of a program its counters of coverage may take while it is
// fuzzed: a manifest of 4 MiB that is one number takes the registry 24 ms, and 178 with them. Seeds
// and findings are held to the bar itself by go test without -fuzz.
const fuzzed = 8

func fuzzing() bool {
	target := flag.Lookup("test.fuzz")
	return target != nil && target.Value.String() != ""
}

// Least measures until the CPU time is within the bar, seven times at most, and returns the least.
// Whatever else the machine does can only add to it: the kernel charges a thread for interrupts
// and for pages that it has to clear, and a hypervisor for what it gave to others meanwhile,
// which lasts for a second or two, so that the later measurements wait for that.
func Least(bar time.Duration, measure func() time.Duration) time.Duration {
	least := measure()
	for again := 0; again < 6 && least > bar; again++ {
		if again > 1 {
			time.Sleep(time.Second)
		}
		least = min(least, measure())
	}
	return least
}

func allocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock is part of every kernel
	}
	return time.Duration(t.Nano())
}
