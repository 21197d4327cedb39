// SPDX-License-Identifier: Apache-2.0

// Package command runs programs of others for a limited time.
package command

import (
	"context"
	"os/exec"
	"time"
)

// New returns a command that is killed when ctx ends, and whose Run and Output return then, within
// a second. What it has started itself may go on and keep its pipes open, for which os/exec waits
// without an end otherwise: a Podman that was killed leaves the runtime, and that CRIU.
func New(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	return cmd
}
