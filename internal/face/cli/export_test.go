// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log/slog"

	"weir/internal/api/apitest"
	"weir/internal/face/server"
)

// ServeFake serves the workloads of apitest.Demo on a socket until stop is called.
func ServeFake(socket string) (stop func(), err error) {
	return serveAgent(socket, apitest.New(apitest.Demo()...))
}

func serveAgent(socket string, agent *apitest.Fake) (stop func(), err error) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s := server.New(agent, server.Options{Socket: socket, Log: log})
	if err := s.Listen(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return func() { cancel(); <-done }, nil
}
