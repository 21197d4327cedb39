// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"weir/internal/config"
	"weir/internal/face/server/page"
	"weir/internal/face/web"
)

// pageSettings returns the settings of a page as its server takes them.
func pageSettings(c config.Web, stateDir string) page.Settings {
	return page.Settings{Listen: c.Listen, TLS: c.TLS, Hosts: c.Hosts, Key: config.WebKeyFile(stateDir),
		Proxy: web.Proxy{Header: c.Proxy.UserHeader, Change: c.Proxy.Change, View: c.Proxy.View}}
}
