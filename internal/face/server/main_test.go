// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
)

func TestMain(m *testing.M) {
	// A slow client is cut off after this; five seconds would be felt here.
	streamWrite = 200 * time.Millisecond
	os.Exit(m.Run())
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start serves agent on a socket of its own until the test ends.
func start(t *testing.T, agent api.Agent) *api.Client {
	t.Helper()
	_, client := startWith(t, agent, Options{})
	return client
}

func startWith(t *testing.T, agent api.Agent, opts Options) (*Server, *api.Client) {
	t.Helper()
	opts.Socket = filepath.Join(t.TempDir(), "weir.sock")
	opts.Log = quiet()
	s := New(agent, opts)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	return s, api.NewClient(opts.Socket)
}

func demo() *apitest.Fake { return apitest.New(apitest.Demo()...) }
