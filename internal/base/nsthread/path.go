// SPDX-License-Identifier: Apache-2.0

package nsthread

import (
	"os"
	"path/filepath"
)

// PathOf returns the file of a process's network namespace; folder is that of the process in
// /proc. A process whose first thread has ended has no such file, and sends on: that of another
// thread stands for it.
//
//	/proc/812/ns/net            usually
//	/proc/812/task/815/ns/net   the first thread has called pthread_exit
func PathOf(folder string) string {
	path := filepath.Join(folder, "ns/net")
	if _, err := os.Readlink(path); err == nil {
		return path
	}
	threads, _ := filepath.Glob(filepath.Join(folder, "task/*/ns/net"))
	for _, thread := range threads {
		if _, err := os.Readlink(thread); err == nil {
			return thread
		}
	}
	return path // it has ended
}
