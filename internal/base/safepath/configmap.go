// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// configMaps is the folder below that of a pod in which kubelet has the pod's ConfigMaps. The
// folders of pods are root's with mode 0750.
const configMaps = "/volumes/kubernetes.io~configmap/"

// configMap reports whether a folder is the root of a ConfigMap that is mounted read-only. The
// mount has to be of a ConfigMap's folder: systemd mounts all folders of a host read-only for
// a service with ProtectSystem=strict, and other processes of the host write them.
func configMap(folder *os.File) bool {
	var x unix.Statx_t
	if err := unix.Statx(int(folder.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x); err != nil ||
		x.Mask&unix.STATX_MNT_ID == 0 || x.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false
	}
	table, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return false
	}
	defer table.Close()
	for lines := bufio.NewScanner(table); lines.Scan(); {
		// 36 35 98:0 /root /mounted/at ro,noatime master:1 - ext4 /dev/root rw
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[0] != strconv.FormatUint(x.Mnt_id, 10) {
			continue
		}
		_, volume, found := strings.Cut(fields[3], configMaps)
		return found && volume != "" && !strings.Contains(volume, "/") && strings.HasPrefix(fields[5], "ro")
	}
	return false
}
