// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// past are the files of the programs that open a path by themselves, and why they need not ask package
// safepath, which refuses what another user could change or exchange.
var past = map[string]string{
	"agent/ledger/ledger.go":              kernels,
	"audit/log.go":                        "/var/log may belong to a group; it refuses links and what it has not made",
	"audit/read.go":                       "as audit/log.go",
	"atomicfile/atomicfile.go":            "a folder that its caller has examined, to sync it",
	"cgroup/cgroup.go":                    kernels,
	"cgroup/legacy.go":                    kernels,
	"cgroup/memory.go":                    kernels,
	"cli/simulate.go":                     users,
	"cluster/migrate/docker/engine.go":    kernels + ", and the bundle of an engine of root",
	"cluster/migrate/docker/folder.go":    engines,
	"cluster/migrate/docker/load.go":      "a file of its own, new",
	"cluster/migrate/docker/source.go":    engines,
	"cluster/migrate/docker/target.go":    kernels,
	"cluster/migrate/journal.go":          "the folder of state, which is examined at the start",
	"cluster/migrate/podman/parts.go":     "the folder of state, which is examined at the start",
	"cluster/migrate/process/process.go":  kernels,
	"cluster/manager/statedir/restore.go": "a folder of its own, new in one that is examined",
	"config/files.go":                     "weir config check, for the user who asks",
	"config/switch.go":                    users,
	"dataplane/device/claim.go":           kernels,
	"dataplane/mark/cgroup.go":            kernels,
	"dataplane/mark/inner.go":             kernels,
	"dataplane/mark/link.go":              kernels,
	"daemon/small.go":                     kernels,
	"discover/capable.go":                 kernels,
	"discover/docker.go":                  kernels,
	"discover/links.go":                   kernels,
	"discover/machine/proxmox.go":         "/etc/pve, Proxmox's own",
	"discover/machine/qemu.go":            kernels + ", and /run/libvirt, libvirt's own",
	"discover/process.go":                 kernels,
	"doctor/look.go":                      "the kernel's, and its configuration in /boot",
	"kubernetes/claims/host.go":           kernels,
	"kubernetes/memory.go":                kernels,
	"kubernetes/probe.go":                 "the pod's own emptyDir, which kubelet makes with mode 0777; its holder can fail probes alone",
	"rootlock/cpu.go":                     kernels,
	"safepath/configmap.go":               kernels,
	"safepath/socket.go":                  "itself",
	"safepath/safepath.go":                "itself",
	"sdn/ovsdb/relay.go":                  "a folder of its own, new and closed to others",
	"server/rest/peer.go":                 kernels,
}

const (
	kernels = "the kernel's /proc, /sys or cgroups"
	users   = "a file that a user names for one command of his own"
	engines = "the folder of an engine of root"
)

var opens = regexp.MustCompile(`(?m)^[^/]*\bos\.(Open|OpenFile|ReadFile|Create|CreateTemp|WriteFile|Chmod|Chown|Lchown)\b|^[^/]*net\.Listen(Unix)?\("unix`)

// TestWhatIsOpenedPastSafepath: each file of the programs that opens a path by itself is known here, with the
// reason for it.
func TestWhatIsOpenedPastSafepath(t *testing.T) {
	left := maps.Clone(past)
	for _, top := range []string{".", "../cmd"} {
		err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && ofTests(path) {
				return filepath.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil && opens.Match(text) {
				if _, known := past[path]; !known {
					t.Errorf("%s opens a path: by package safepath, or say here why not", path)
				}
				delete(left, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range left {
		t.Errorf("%s opens nothing by itself any more", path)
	}
}

// ofTests reports whether a folder has no part of a program that root runs on a host.
func ofTests(path string) bool {
	switch name := filepath.Base(path); name {
	case "lab", "labcli", "e2e", "demo", "suite", "manual", "verdict", "counter", "testdata", "doccommand", "boundtest":
		return true
	default:
		return strings.HasSuffix(name, "test") && name != "e2e"
	}
}
