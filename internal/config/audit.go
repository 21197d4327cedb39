// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"
)

// AuditFile returns the path of the audit log of an agent or a manager with this state
// directory: /var/log/weir/audit.log for /var/lib/weir, /var/log/weir-manager/audit.log
// for /var/lib/weir/manager, and audit.log in the state directory itself for any other
// one. So agents beside each other do not share a file.
func AuditFile(stateDir string) string {
	switch filepath.Clean(stateDir) {
	case Default().StateDir, DefaultManager().StateDir:
		name := strings.ReplaceAll(strings.TrimPrefix(filepath.Clean(stateDir), "/var/lib/"), "/", "-")
		return filepath.Join("/var/log", name, "audit.log")
	}
	return filepath.Join(stateDir, "audit.log")
}
