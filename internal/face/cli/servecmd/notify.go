// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"context"
	"log/slog"
	"time"

	"weir/internal/face/cli/serving"
)

// notifyReady tells systemd that the agent answers, which it does once its links have been set
// up. That may take longer than a request waits, with many workloads or a slow host.
func notifyReady(ctx context.Context, log *slog.Logger, answers func() error) {
	for answers() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
	serving.Notify(log, "READY=1")
}
