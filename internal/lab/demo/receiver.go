// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/profile"
)

const (
	firstPort      = 5001                  // workload 0's; the others follow
	sampleEvery    = 50 * time.Millisecond // how often the receiver notes what it has got
	sendingBy      = 30 * time.Second      // by when every workload has to send
	lengthOfRead   = 256 << 10
	lengthOfWrite  = 128 << 10
	headers        = 14 + 20 + 20 // Ethernet, IPv4, TCP
	timestamps     = 12           // TCP option, with padding
	tcpiTimestamps = 1            // TCPI_OPT_TIMESTAMPS
)

// receiver takes whatever the workloads send and counts it.
type receiver struct {
	listeners []net.Listener
	began     time.Time

	mu      sync.Mutex
	conns   []syscall.RawConn // per workload, nil until connected
	samples series
}

// listen opens the receiver's ports; do runs a function in its namespace, to
// which the sockets then belong.
func listen(do func(func() error) error, address string, workloads int) (*receiver, error) {
	r := &receiver{began: time.Now(), conns: make([]syscall.RawConn, workloads)}
	for w := range workloads {
		var l net.Listener
		err := do(func() (err error) {
			l, err = net.Listen("tcp4", target(address, w))
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the receiver's port: %w", err), r.close())
		}
		r.listeners = append(r.listeners, l)
		go r.accept(w, l)
	}
	return r, nil
}

// target returns the address that a workload sends to.
func target(address string, w int) string { return fmt.Sprintf("%s:%d", address, firstPort+w) }

// accept takes a workload's one connection and reads until its end.
func (r *receiver) accept(w int, l net.Listener) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return
	}
	r.mu.Lock()
	r.conns[w] = raw
	r.mu.Unlock()
	for buffer := make([]byte, lengthOfRead); err == nil; {
		_, err = conn.Read(buffer)
	}
}

func (r *receiver) close() error {
	var errs []error
	for _, l := range r.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// now returns the receiver's clock.
func (r *receiver) now() time.Duration { return time.Since(r.began) }

// run notes the bytes that have arrived until ctx ends.
func (r *receiver) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.note()
		}
	}
}

func (r *receiver) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := sample{bytes: make([]uint64, len(r.conns)), waited: waitedForCPU()}
	for w, conn := range r.conns {
		if n := len(r.samples); n > 0 {
			s.bytes[w] = r.samples[n-1].bytes[w] // what counts once it is closed
		}
		if conn == nil {
			continue
		}
		_ = conn.Control(func(fd uintptr) {
			if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				s.bytes[w] = wireBytes(info)
			}
		})
	}
	s.at = r.now()
	r.samples = append(r.samples, s)
}

// waitedForCPU returns for how long some process of the machine has waited for a CPU since it
// booted; 0 if the kernel does not count it (CONFIG_PSI).
func waitedForCPU() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return time.Duration(profile.Waited(text)) * time.Microsecond
}

// wireBytes returns the bytes that a connection has received, frame headers included, as
// a qdisc counts them. It counts segments and not bytes, because the kernel counts bytes
// only once they are in order: after a loss they would all come at once. A sender that
// always has more fills its segments, so this is exact to a few frames.
func wireBytes(info *unix.TCPInfo) uint64 {
	header := uint64(headers)
	if info.Options&tcpiTimestamps != 0 {
		header += timestamps
	}
	return uint64(info.Data_segs_in) * (uint64(info.Rcv_mss) + header)
}

// series returns the samples noted so far.
func (r *receiver) series() series {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.samples[:len(r.samples):len(r.samples)]
}

// upTo returns the samples noted, once they reach an instant.
func (r *receiver) upTo(ctx context.Context, end time.Duration) (series, error) {
	ctx, cancel := context.WithTimeout(ctx, sendingBy)
	defer cancel()
	err := poll(ctx, func() error {
		if s := r.series(); len(s) == 0 || s[len(s)-1].at < end {
			return errors.New("the receiver does not count any more")
		}
		return nil
	})
	return r.series(), err
}

// await returns once something of every workload has arrived.
func (r *receiver) await(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, sendingBy)
	defer cancel()
	return poll(ctx, func() error {
		s := r.series()
		for w, name := range names {
			if len(s) == 0 || s[len(s)-1].bytes[w] == 0 {
				return fmt.Errorf("no packet of %s arrives", name)
			}
		}
		return nil
	})
}

// send sends to an address until the process ends or the receiver is gone. The
// network of a workload may come up after the workload.
func send(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendingBy)
	defer cancel()
	var conn net.Conn
	err := poll(ctx, func() (err error) {
		conn, err = net.DialTimeout("tcp4", address, time.Second)
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	for data := make([]byte, lengthOfWrite); ; {
		if _, err := conn.Write(data); err != nil {
			return fmt.Errorf("send to %s: %w", address, err)
		}
	}
}

// poll asks until there is no error or ctx ends; then the error is the last one.
func poll(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
