// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"
)

// AuditFile is where an agent or a manager with this state directory keeps its audit
// log: /var/log/weir/audit.log for /var/lib/weir, /var/log/weir-manager/audit.log for
// /var/lib/weir/manager, and a file in the state directory where that is another one.
// So agents beside each other do not share a file.
func AuditFile(stateDir string) string {
	switch filepath.Clean(stateDir) {
	case Default().StateDir, DefaultManager().StateDir:
		name := strings.ReplaceAll(strings.TrimPrefix(filepath.Clean(stateDir), "/var/lib/"), "/", "-")
		return filepath.Join("/var/log", name, "audit.log")
	}
	return filepath.Join(stateDir, "audit.log")
}
