// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"

	"weir/internal/config"
	"weir/internal/host/disk"
)

// Disk is a folder in which the agent writes.
type Disk struct {
	Path    string
	Trouble string // why nothing can be written there, "" = something can
}

// lookDisks reads the folders of an agent with a configuration.
func lookDisks(c config.Config) []Disk {
	var found []Disk
	for _, path := range []string{c.StateDir, filepath.Dir(config.AuditFile(c.StateDir))} {
		if len(found) == 0 || found[0].Path != path {
			found = append(found, Disk{path, disk.Trouble(path)})
		}
	}
	return found
}

func disks(h Host) []Finding {
	if len(h.Disks) == 0 {
		return ok("the agent's folders were not looked at")
	}
	var all []Finding
	for _, d := range h.Disks {
		if d.Trouble != "" {
			all = append(all, Finding{Level: Fails, Seen: d.Path + ": " + d.Trouble, Remedy: "make room there, or mount it writable; until then the agent refuses changes, and counts and records nothing that outlives it"})
			continue
		}
		all = append(all, Finding{Level: OK, Seen: d.Path + " has room"})
	}
	return all
}
