// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/policy"
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

// serveProbes answers GET /ready and /live at a unix socket until ctx ends. It needs no port: a pod
// with the host's network would take one of the host's.
func serveProbes(ctx context.Context, socket string, checks map[string]func() error) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--probe-socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("--probe-socket: %w; its folder %s has to be there", err, filepath.Dir(socket))
	}
	mux := http.NewServeMux()
	for name, check := range checks {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		})
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeWithin}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--probe-socket: %w", err)
	}
	return ctx.Err()
}

// askProbe asks the weir-kubernetes at a socket. The error is what is missing there, or that it
// does not answer.
func askProbe(ctx context.Context, socket, which string) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://weir-kubernetes/"+which, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("not %s: %w", which, errors.Unwrap(err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return fmt.Errorf("not %s: %w", which, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not %s: %s", which, strings.TrimSpace(string(text)))
	}
	return nil
}
