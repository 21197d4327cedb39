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
	"slices"
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
//	e2e.test traffic udp ADDRESS FLOW RATE BURST SIZE TOS [FROM]
//	                                     numbered datagrams of SIZE bytes; RATE in wire bit/s
//	e2e.test traffic tap RATE NUMBER FLOW DEV...
//	                                     the same in frames, as a machine behind taps that it makes
//	e2e.test traffic tcp ADDRESS         one stream of all it can
//	e2e.test traffic ask ADDRESS         a request of one byte after the other's answer has come
//	e2e.test traffic new RATE NUMBER     so many SYNs a second, each of a new flow, as workload NUMBER
//	e2e.test traffic relay DEV SPACE DEV carries frames between a tap here and one in another namespace
//	e2e.test traffic stay                nothing, it keeps its namespaces
//	e2e.test traffic confine ATTACK      a way out, as root of a container (ways_test.go)
//	e2e.test traffic receive             counts datagrams by flow, discards streams, answers
//
// A sender ends when its stdin does, and prints how much it sent; one that asks
// prints the round trips' times instead. The receiver prints what it has for each
// line of its stdin.
const childArg = "traffic"

const (
	udpPort = 7001
	tcpPort = 7002
	askPort = 7003

	payload = 1200
	headers = 42 // Ethernet, IPv4, UDP
	frame   = payload + headers
)

// udpPorts are the ports of the receiver; rules tell flows apart by them.
var udpPorts = []int{udpPort, voicePort, videoPort, otherPort}

const (
	voicePort = 5001
	videoPort = 5002
	otherPort = 5003
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
	case "ask":
		err = ask(args)
	case "forge":
		err = forge(args)
	case "receive":
		err = receive()
	case "take":
		err = take(args)
	case "eager":
		err = eager(args)
	case "confine":
		err = confine(args)
	case "new":
		err = sendNew(args)
	case "way":
		err = setUp(args)
	case "waysend":
		err = sendWay(args)
	case "relay":
		err = relay(args)
	case "stay":
		fmt.Println("here")
		<-stdinEnded()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "traffic", what, err)
		return 1
	}
	return 0
}

// stdinEnded returns a channel that is closed when stdin ends.
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
	size, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	tos, err := strconv.Atoi(args[5])
	if err != nil {
		return err
	}
	from := &net.UDPAddr{}
	if len(args) > 6 {
		from.IP = net.ParseIP(args[6])
	}
	conn, err := (&net.Dialer{LocalAddr: from}).Dial("udp", args[0])
	if err != nil {
		return err
	}
	wire := size + headers
	if conn.RemoteAddr().(*net.UDPAddr).IP.To4() == nil {
		wire += 20 // IPv6's header is that much longer
	}
	if err := prepareSender(conn.(*net.UDPConn), tos); err != nil {
		return err
	}
	packet := make([]byte, size)
	binary.BigEndian.PutUint64(packet, flow)
	return pace(rate, burst, wire, func(number uint64) error {
		binary.BigEndian.PutUint64(packet[8:], number)
		_, err := conn.Write(packet)
		return err
	})
}

// pace sends packets of `wire` bytes at a rate in wire bit/s until stdin ends, and
// prints how many it were.
func pace(rate uint64, burst, wire int, send func(number uint64) error) error {
	ended := stdinEnded()
	tick := time.NewTicker(5 * time.Millisecond)
	var sent uint64
	due, last := 0.0, time.Now()
	for {
		now := time.Now()
		// A sender that was kept from sending makes up for BURST packets of it.
		due, last = min(due+now.Sub(last).Seconds()*float64(rate)/float64(wire*8), float64(burst)), now
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

// sendTCP fills as many connections as its second argument says, one without it.
func sendTCP(args []string) error {
	streams := 1
	if len(args) > 1 {
		var err error
		if streams, err = strconv.Atoi(args[1]); err != nil {
			return err
		}
	}
	ended := stdinEnded()
	var sent atomic.Uint64
	failed := make(chan error, streams)
	for range streams {
		conn, err := net.Dial("tcp4", args[0])
		if err != nil {
			return err
		}
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
	}
	select {
	case err := <-failed:
		return err
	case <-ended:
	}
	fmt.Println(sent.Load())
	return nil
}

// arrival has the receiver's counters of one flow.
type arrival struct {
	Packets uint64 `json:"packets"`
	Next    uint64 `json:"next"` // the number after the largest one that came
	Late    uint64 `json:"late"` // came after one with a larger number
	// Codes counts packets by their DSCP.
	Codes map[uint8]uint64 `json:"codes"`
	// Gap is the longest time between two of them since the receiver was last asked.
	Gap  time.Duration `json:"gap"`
	last time.Time
}

func receive() error {
	streams, err := net.Listen("tcp", fmt.Sprintf(":%d", tcpPort))
	if err != nil {
		return err
	}
	go serve(streams, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	asked, err := net.Listen("tcp", fmt.Sprintf(":%d", askPort))
	if err != nil {
		return err
	}
	go serve(asked, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	var mu sync.Mutex
	flows := map[uint64]*arrival{}
	for _, port := range udpPorts {
		for _, network := range []string{"udp4", "udp6"} {
			conn, err := net.ListenUDP(network, &net.UDPAddr{Port: port})
			if err != nil && network == "udp6" {
				continue // a kernel without IPv6
			}
			if err == nil {
				err = prepareReceiver(conn)
			}
			if err != nil {
				return err
			}
			go collect(conn, &mu, flows)
		}
	}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(flows) // "I listen"
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mu.Lock()
		err := out.Encode(flows)
		for _, a := range flows {
			a.Gap = 0
		}
		mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// collect notes what comes to one socket.
func collect(conn *net.UDPConn, mu *sync.Mutex, flows map[uint64]*arrival) {
	buf, control := make([]byte, 2*payload), make([]byte, 64)
	for {
		n, oobn, _, _, err := conn.ReadMsgUDPAddrPort(buf, control)
		if err != nil || n < 16 {
			continue
		}
		mu.Lock()
		note(flows, binary.BigEndian.Uint64(buf), binary.BigEndian.Uint64(buf[8:]), codeOf(control[:oobn]))
		mu.Unlock()
	}
}

// codeOf returns the DSCP that the kernel says a packet has.
func codeOf(control []byte) uint8 {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if len(m.Data) > 0 && (m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_TOS ||
			m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_TCLASS) {
			return m.Data[0] >> 2 // a byte, or a number in this machine's order
		}
	}
	return 0
}

func note(flows map[uint64]*arrival, flow, number uint64, code uint8) {
	a, now := flows[flow], time.Now()
	if a == nil {
		a = &arrival{Codes: map[uint8]uint64{}, last: now}
		flows[flow] = a
	}
	a.Packets++
	a.Codes[code]++
	a.Gap, a.last = max(a.Gap, now.Sub(a.last)), now
	if number < a.Next {
		a.Late++
		return
	}
	a.Next = number + 1
}

// prepareReceiver gives the socket room for what comes while the machine is busy
// (a packet lost here would look like one lost on the way), and has it say each
// packet's DSCP.
func prepareReceiver(conn *net.UDPConn) error {
	return control(conn, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		if conn.LocalAddr().(*net.UDPAddr).IP.To4() == nil {
			return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1))
		}
		return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTOS, 1))
	})
}

// prepareSender has a socket send with this TOS, and never wait for what it has
// sent before: what finds a queue full is to be dropped there.
func prepareSender(conn *net.UDPConn, tos int) error {
	return control(conn, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20)
		if conn.RemoteAddr().(*net.UDPAddr).IP.To4() == nil {
			return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_TCLASS, tos))
		}
		return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TOS, tos))
	})
}

func control(conn syscall.Conn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

func serve(listener net.Listener, talk func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go talk(conn)
	}
}

// roundTrips are the times of a client that asks, sorted.
type roundTrips []time.Duration

// part returns the time that a part q of them, 0 to 1, does not exceed.
func (r roundTrips) part(q float64) time.Duration { return r[int(q*float64(len(r)-1))] }

func (r roundTrips) String() string {
	if len(r) == 0 {
		return "no answer"
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return fmt.Sprintf("%d round trips, p50 %.2f, p99 %.2f, longest %.2f ms", len(r), ms(r.part(0.5)), ms(r.part(0.99)), ms(r.part(1)))
}

// ask sends one byte, waits for the answer, pauses for its second argument, and so on.
func ask(args []string) error {
	pause, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	ended := stdinEnded()
	times := roundTrips{}
	for one := []byte{1}; ; {
		select {
		case <-ended:
			slices.Sort(times)
			return json.NewEncoder(os.Stdout).Encode(times)
		default:
		}
		begin := time.Now()
		if _, err := conn.Write(one); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
		time.Sleep(pause)
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

// times ends a client that asks and returns its measurements.
func (p *process) times() (r roundTrips) {
	p.t.Helper()
	p.stdin.Close()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || len(r) == 0 {
		p.t.Fatalf("asking: %d answers, %v", len(r), err)
	}
	p.kill()
	return r
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
