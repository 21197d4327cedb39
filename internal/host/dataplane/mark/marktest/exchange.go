// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Settled measures when what loading and removing a program leaves behind is done with: garbage of
// Go's, and maps that the kernel frees later.
func Settled(exchange func() float64) float64 {
	runtime.GC()
	time.Sleep(50 * time.Millisecond)
	return min(exchange(), exchange())
}

// Exchange returns a function that has two ends at an address of lo send each other one byte
// 500 times, and says how long a packet took, in ns. What a byte acknowledges needs no packet of
// its own.
func Exchange(b *testing.B, address [4]byte) func() float64 {
	b.Helper()
	fatal := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	fatal(err)
	fatal(unix.Bind(listener, &unix.SockaddrInet4{Addr: address}))
	fatal(unix.Listen(listener, 1))
	at, err := unix.Getsockname(listener)
	fatal(err)
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	fatal(err)
	fatal(unix.Connect(here, at))
	there, _, err := unix.Accept(listener)
	fatal(err)
	for _, fd := range []int{here, there} {
		fatal(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	b.Cleanup(func() {
		for _, fd := range []int{listener, here, there} {
			unix.Close(fd)
		}
	})
	const times = 500
	one := make([]byte, 1)
	return func() float64 {
		begin := time.Now()
		for range times {
			for _, way := range [][2]int{{here, there}, {there, here}} {
				_, err := unix.Write(way[0], one)
				fatal(err)
				_, err = unix.Read(way[1], one)
				fatal(err)
			}
		}
		return float64(time.Since(begin).Nanoseconds()) / (2 * times)
	}
}
