// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"log/slog"
	"net"
	"os"
)

// notifySystemd tells systemd about the state of a unit of Type=notify; without
// one (NOTIFY_SOCKET unset) it does nothing. See sd_notify(3).
func notifySystemd(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		defer conn.Close()
		_, err = conn.Write([]byte(state))
	}
	if err != nil {
		log.Warn("systemd was not notified", "state", state, "err", err)
	}
}
