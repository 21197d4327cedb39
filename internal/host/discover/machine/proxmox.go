// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// proxmoxDevice matches what Proxmox VE calls the host's end of a guest's interface: tap100i0 and
// veth101i1 are net0 of machine 100 and net1 of container 101.
var proxmoxDevice = regexp.MustCompile(`^(tap|veth)([1-9][0-9]{2,8})i([0-9]{1,2})$`)

// ofProxmox returns the guests of Proxmox VE that such devices are of. Their names are in the
// cluster's file system; one without is called like its kind and number, vm100 or ct101.
func (f *Finder) ofProxmox(devices []string) map[string]NIC {
	found := map[string]NIC{}
	if info, err := os.Stat(f.Proxmox); err != nil || !info.IsDir() {
		return found
	}
	for _, device := range devices {
		part := proxmoxDevice.FindStringSubmatch(device)
		if part == nil {
			continue
		}
		folder, key, kind := "qemu-server", "name", "vm"
		if part[1] == "veth" {
			folder, key, kind = "lxc", "hostname", "ct"
		}
		text, err := os.ReadFile(filepath.Join(f.Proxmox, folder, part[2]+".conf"))
		if err != nil {
			continue // no guest of this node has this number
		}
		name := proxmoxValue(text, key)
		if name == "" {
			name = kind + part[2]
		}
		index, _ := strconv.Atoi(part[3]) // two digits
		found[device] = NIC{name, index}
	}
	return found
}

// proxmoxValue returns the value of a key of a guest's file, "" if it has none. What follows a line
// in brackets is of a snapshot.
func proxmoxValue(text []byte, key string) string {
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "[") {
			break
		}
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
