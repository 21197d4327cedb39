// SPDX-License-Identifier: Apache-2.0

// Package serving has what the agent and the manager do alike around their work: settings of the
// configuration file as pages and buses take them, and what systemd is told.
package serving

import (
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"

	"weir/internal/cluster/bus/kafka"
	"weir/internal/config"
	"weir/internal/face/server/page"
	"weir/internal/face/web"
)

// PageSettings returns the settings of a page as its server takes them.
func PageSettings(c config.Web, stateDir string) page.Config {
	return page.Config{Listen: c.Listen, TLS: c.TLS, Hosts: c.Hosts, Key: config.WebKeyFile(stateDir),
		Proxy: web.Proxy{Header: c.Proxy.UserHeader, Change: c.Proxy.Change, View: c.Proxy.View}}
}

// KafkaSecurity returns the settings as the bus takes them.
func KafkaSecurity(c config.Kafka) kafka.Security {
	return kafka.Security{TLS: c.TLS, Files: c.Files, Mechanism: c.Mechanism, User: c.User, PasswordFile: c.PasswordFile}
}

// Notify tells systemd the state of a unit of Type=notify, such as
// daemon.SdNotifyReady. It does nothing where NOTIFY_SOCKET is not set.
func Notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("systemd was not notified", "state", state, "err", err)
	}
}
