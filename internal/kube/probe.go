// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/core/policy"
)

// The probes of kubelet.
const (
	probeReady = "ready"
	probeLive  = "live"
)

// probeWithin bounds one probe; kubelet gives it a second by default.
const probeWithin = time.Second

// checkProbe refuses a probe that there is not, and one without a socket.
func checkProbe(which, socket string) error {
	if which != probeReady && which != probeLive {
		return fmt.Errorf("--probe %q: %s", which, policy.DidYouMean(which, []string{probeReady, probeLive}))
	}
	if socket == "" {
		return fmt.Errorf("--probe %s: of which process is missing; give its --probe-socket too", which)
	}
	return nil
}

// healthy says how a node is.
type healthy interface {
	Ready() error
	Live() error
}

// checks returns the answers to the probes. A pod is ready when the node is, and when kubelet has
// taken the DRA driver, if claims are served. It is live while its comparisons end: a restart
// brings back neither an agent nor an API server.
func (o *options) checks(n healthy) map[string]func() error {
	return map[string]func() error{
		probeLive: n.Live,
		probeReady: func() error {
			if err := n.Ready(); err != nil {
				return err
			}
			if o.claims != nil && !o.registered.Load() {
				return errors.New("kubelet has not taken the DRA driver; see --kubelet-dir")
			}
			return nil
		},
	}
}

// well is the answer to a probe that is passed; any other is what is missing.
const well = "ok"

// serveProbes answers probes at a unix socket until ctx ends: a line with the probe's name,
// answered by a line. It needs no port: a pod with the host's network would take one of the host's.
func serveProbes(ctx context.Context, socket string, checks map[string]func() error) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--probe-socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("--probe-socket: %w; its folder %s has to be there", err, filepath.Dir(socket))
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("--probe-socket: %w", err)
		}
		go answerProbe(conn, checks)
	}
}

// answerProbe answers one probe.
func answerProbe(conn net.Conn, checks map[string]func() error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeWithin)); err != nil {
		return
	}
	line, err := bufio.NewReader(io.LimitReader(conn, 64)).ReadString('\n')
	check, known := checks[strings.TrimSpace(line)]
	if err != nil || !known {
		return // a caller that is not of this program
	}
	answer := well
	if err := check(); err != nil {
		answer = err.Error()
	}
	_, _ = fmt.Fprintln(conn, answer) // a caller that is gone has its answer
}

// askProbe asks the weir-kubernetes at a socket. The error is what is missing there, or that it
// does not answer.
func askProbe(ctx context.Context, socket, which string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("not %s: %w", which, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeWithin)); err != nil {
		return fmt.Errorf("not %s: %w", which, err)
	}
	if _, err := fmt.Fprintln(conn, which); err != nil {
		return fmt.Errorf("not %s: %w", which, err)
	}
	text, err := bufio.NewReader(io.LimitReader(conn, 4096)).ReadString('\n')
	if err != nil {
		return fmt.Errorf("not %s: %w", which, err)
	}
	if text = strings.TrimSpace(text); text != well {
		return fmt.Errorf("not %s: %s", which, text)
	}
	return nil
}
