// SPDX-License-Identifier: Apache-2.0

// Package counter is a program whose state shows whether a migration was exact: it
// counts in memory, ten times a second, and writes each number with the wall clock's
// time into a file. In memory it also keeps a block of pseudo-random bytes, of which
// it checks a part at each tick. A number that is missing or comes twice, or a byte
// that changed, is seen in the file:
//
//	41 1795320000123456789 ok
//	42 1795320000223456789 ok
//	43 1795320000823501234 ok        <- it stood still for 0.5 s in between
//
// Check reads such a file.
package counter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tick is the time between two counts.
const Tick = 100 * time.Millisecond

// File is the path in its file system to which the counter writes.
const File = "/state/count.log"

// Options of the program, by its arguments NAME=VALUE.
type Options struct {
	MiB   int   // mib: of memory
	Files int   // files: MiB of random data that it writes into /state/data at the start
	TCP   bool  // tcp=1: it listens on port 7000 and tells each line to who connects
	Uring bool  // uring=1: it holds a ring of io_uring
	Send  *Send // send=NAME,BPS,HOST:PORT
}

// Main counts until it is ended. args are "mib=100", "files=20", "tcp=1", "uring=1",
// "send=web,20000000,10.77.0.1:9000".
func Main(args []string) error {
	var o Options
	for _, arg := range args {
		var n int
		switch {
		case scan(arg, "mib=%d", &n):
			o.MiB = n
		case scan(arg, "files=%d", &n):
			o.Files = n
		case scan(arg, "tcp=%d", &n):
			o.TCP = n > 0
		case scan(arg, "uring=%d", &n):
			o.Uring = n > 0
		case strings.HasPrefix(arg, "send="):
			send, err := parseSend(strings.TrimPrefix(arg, "send="))
			if err != nil {
				return err
			}
			o.Send = send
		default:
			return fmt.Errorf("counter: argument %q", arg)
		}
	}
	return o.run()
}

func scan(arg, format string, n *int) bool {
	found, err := fmt.Sscanf(arg, format, n)
	return err == nil && found == 1
}

// Fill writes a block's pseudo-random bytes, the same for the same index.
func Fill(block []byte, index uint64) {
	x := index*0x9e3779b97f4a7c15 + 1
	for i := 0; i+8 <= len(block); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(block[i:], x)
	}
}

const blockSize = 1 << 20

func (o Options) run() error {
	if err := os.MkdirAll("/state", 0o755); err != nil {
		return err
	}
	memory := make([][]byte, o.MiB)
	for i := range memory {
		memory[i] = make([]byte, blockSize)
		Fill(memory[i], uint64(i))
	}
	if err := o.writeFiles(); err != nil {
		return err
	}
	f, err := os.OpenFile(File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	told := make(chan string, 16)
	if o.TCP {
		if err := serve(told); err != nil {
			return err
		}
	}
	if o.Uring {
		var params [120]byte // of struct io_uring_params
		if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0); errno != 0 {
			return fmt.Errorf("io_uring: %w", errno)
		}
	}
	if o.Send != nil {
		if err := o.Send.start(); err != nil {
			return err
		}
	}
	want := make([]byte, blockSize)
	for n := 0; ; n++ {
		state := "ok"
		if o.MiB > 0 {
			Fill(want, uint64(n%o.MiB))
			if !bytes.Equal(want, memory[n%o.MiB]) {
				state = "broken"
			}
		}
		line := fmt.Sprintf("%d %d %s\n", n, time.Now().UnixNano(), state)
		if _, err := f.WriteString(line); err != nil {
			return err
		}
		select {
		case told <- line:
		default:
		}
		time.Sleep(Tick)
	}
}

func (o Options) writeFiles() error {
	if o.Files == 0 {
		return nil
	}
	f, err := os.Create("/state/data")
	if err != nil {
		return err
	}
	block := make([]byte, blockSize)
	for i := range o.Files {
		Fill(block, uint64(i)+1<<32)
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Close()
}

// serve tells the lines to one connection at a time.
func serve(lines <-chan string) error {
	l, err := net.Listen("tcp4", ":7000") // GODEBUG=multipathtcp=0: CRIU knows no MPTCP
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			for line := range lines {
				if _, err := io.WriteString(conn, line); err != nil {
					break
				}
			}
			conn.Close()
		}
	}()
	return nil
}

// Count sums up a counter's file.
type Count struct {
	Last   int
	First  int
	Gap    time.Duration // the longest time between two lines
	GapAt  int           // the number after it
	Starts int           // how often it began at 0
}

// Check reads a counter's file. It returns an error if the counter has not counted,
// or for the first line that is not exact.
func Check(r io.Reader) (c Count, err error) {
	c.First, c.Last = -1, -1
	var before time.Time
	for s := bufio.NewScanner(r); s.Scan(); {
		var n int
		var ns int64
		var state string
		if _, err := fmt.Sscanf(s.Text(), "%d %d %s", &n, &ns, &state); err != nil {
			return c, fmt.Errorf("line %q after %d: %w", s.Text(), c.Last, err)
		}
		at := time.Unix(0, ns)
		switch {
		case state != "ok":
			return c, fmt.Errorf("at %s its memory is %s", strconv.Itoa(n), state)
		case c.First < 0:
			c.First = n
		case n != c.Last+1:
			return c, fmt.Errorf("%d follows %d", n, c.Last)
		}
		if n == 0 {
			c.Starts++
		}
		if !before.IsZero() && at.Sub(before) > c.Gap {
			c.Gap, c.GapAt = at.Sub(before), n
		}
		c.Last, before = n, at
	}
	if c.Last < 0 {
		return c, fmt.Errorf("it has not counted")
	}
	return c, nil
}
