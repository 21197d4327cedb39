// SPDX-License-Identifier: Apache-2.0

// Package servecmd has the commands that run until they are told to stop: weir agent, weir
// manager serve and weir migrate-helper. Each puts flags over the configuration, opens sockets,
// says to systemd when it is ready, and runs what package daemon, manager or remote has made.
// What they do is decided there.
package servecmd

import "weir/internal/face/cli/frame"

// Commands makes the commands that serve.
type Commands struct{ *frame.App }
