// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySystemd tells systemd the state of a unit of Type=notify, such as
// daemon.SdNotifyReady. It does nothing where NOTIFY_SOCKET is not set.
func notifySystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not notified", "state", state, "err", err)
	}
}

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
	notifySystemd(log, "READY=1")
}
