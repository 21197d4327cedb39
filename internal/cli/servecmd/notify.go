// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifySystemd tells systemd the state of a unit of Type=notify, such as
// daemon.SdNotifyReady. It does nothing where NOTIFY_SOCKET is not set.
func notifySystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not notified", "state", state, "err", err)
	}
}
