// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The traffic's programs are this test binary, run again in a namespace:
//
//	e2e.test traffic udp ADDRESS FLOW RATE BURST [FROM]    numbered datagrams; RATE in wire bit/s
//	e2e.test traffic tap RATE NUMBER FLOW DEV...           the same in frames, as a machine behind taps that it makes
//	e2e.test traffic tcp ADDRESS                           one stream of all it can
//	e2e.test traffic receive                               counts datagrams by flow, discards streams
//
// A sender ends when its stdin does, and prints how much it sent. The receiver
// prints what it has for each line of its stdin.
const childArg = "traffic"

const (
	udpPort = 7001
	tcpPort = 7002

	payload = 1200
	frame   = payload + 42 // with UDP, IP and Ethernet headers
)

func child(what string, args []string) int {
	var err error
	switch what {
	case "udp":
		err = sendUDP(args)
	case "tap":
		err = sendTap(args)
	case "tcp":
		err = sendTCP(args)
	case "receive":
		err = receive()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "traffic", what, err)
		return 1
	}
	return 0
}

// stdinEnded is closed when stdin ends.
func stdinEnded() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	return ended
}

func sendUDP(args []string) error {
	flow, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	rate, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	burst, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	from := &net.UDPAddr{}
	if len(args) > 4 {
		from.IP = net.ParseIP(args[4])
	}
	conn, err := (&net.Dialer{LocalAddr: from}).Dial("udp4", args[0])
	if err != nil {
		return err
	}
	packet := make([]byte, payload)
	binary.BigEndian.PutUint64(packet, flow)
	return pace(rate, burst, func(number uint64) error {
		binary.BigEndian.PutUint64(packet[8:], number)
		_, err := conn.Write(packet)
		return err
	})
}

// pace sends at a rate in wire bit/s until stdin ends, and prints how many packets
// it were.
func pace(rate uint64, burst int, send func(number uint64) error) error {
	ended := stdinEnded()
	tick := time.NewTicker(5 * time.Millisecond)
	var sent uint64
	due, last := 0.0, time.Now()
	for {
		now := time.Now()
		// A sender that was kept from sending makes up for BURST packets of it.
		due, last = min(due+now.Sub(last).Seconds()*float64(rate)/(frame*8), float64(burst)), now
		for ; due >= 1; due-- {
			if err := send(sent); err != nil {
				return err // not refused, not lost: it never got out
			}
			sent++
		}
		select {
		case <-ended:
			fmt.Println(sent)
			return nil
		case <-tick.C:
		}
	}
}

func sendTCP(args []string) error {
	conn, err := net.Dial("tcp4", args[0])
	if err != nil {
		return err
	}
	ended := stdinEnded()
	var sent atomic.Uint64
	failed := make(chan error, 1)
	go func() {
		for buf := make([]byte, 64<<10); ; {
			n, err := conn.Write(buf)
			sent.Add(uint64(n))
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ended:
	}
	fmt.Println(sent.Load())
	return nil
}

// arrival is what the receiver knows of one flow.
type arrival struct {
	Packets uint64 `json:"packets"`
	Next    uint64 `json:"next"` // the number after the largest one that came
	Late    uint64 `json:"late"` // came after one with a larger number
}

// missing is how many packets before the last one that came did not come.
func (a arrival) missing() int { return int(a.Next) - int(a.Packets) }

func receive() error {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: udpPort})
	if err != nil {
		return err
	}
	if err := enlarge(conn); err != nil {
		return err
	}
	streams, err := net.Listen("tcp4", fmt.Sprintf(":%d", tcpPort))
	if err != nil {
		return err
	}
	go discard(streams)
	var mu sync.Mutex
	flows := map[uint64]*arrival{}
	go func() {
		buf := make([]byte, 2*payload)
		for {
			n, _, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil || n < 16 {
				continue
			}
			mu.Lock()
			note(flows, binary.BigEndian.Uint64(buf), binary.BigEndian.Uint64(buf[8:]))
			mu.Unlock()
		}
	}()
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(flows) // "I listen"
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mu.Lock()
		err := out.Encode(flows)
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func note(flows map[uint64]*arrival, flow, number uint64) {
	a := flows[flow]
	if a == nil {
		a = &arrival{}
		flows[flow] = a
	}
	a.Packets++
	if number < a.Next {
		a.Late++
		return
	}
	a.Next = number + 1
}

// enlarge gives the socket room for what comes while the machine is busy: a
// packet lost here would look like one lost on the way.
func enlarge(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	})
	return errors.Join(err, failed)
}

func discard(streams net.Listener) {
	for {
		conn, err := streams.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
}

// process is a running child.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	ended bool
}

// launch starts a child in a namespace.
func launch(s *space, args ...string) *process {
	s.t.Helper()
	return launchWith(s, &syscall.SysProcAttr{}, args...)
}

func launchWith(s *space, how *syscall.SysProcAttr, args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, cmd: exec.Command("/proc/self/exe", append([]string{childArg}, args...)...)}
	p.cmd.SysProcAttr = how
	p.start(s)
	return p
}

// start starts the process in a namespace; it ends with the test.
func (p *process) start(s *space) {
	p.t.Helper()
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	s.start(p.cmd)
	s.t.Cleanup(p.kill)
}

func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop has a sender end and returns how many packets (UDP) or bytes (TCP) it sent.
func (p *process) stop() uint64 {
	p.t.Helper()
	p.stdin.Close()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("sender: %v", err)
	}
	p.kill()
	n, err := strconv.ParseUint(line[:len(line)-1], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// arrivals asks the receiver.
func (p *process) arrivals() map[uint64]arrival {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, "\n"); err != nil {
		p.t.Fatal(err)
	}
	return p.read()
}

func (p *process) read() map[uint64]arrival {
	p.t.Helper()
	var flows map[uint64]arrival
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &flows)
	}
	if err != nil {
		p.t.Fatalf("receiver: %v", err)
	}
	return flows
}
