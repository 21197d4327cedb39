// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// thaw ends the freeze of a container's cgroup, and says whether there was one.
func thaw(root string, pid int, id string) (took bool, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		own := ancestor(fields[2], id)
		if own == "" {
			continue // its cgroup is not the engine's: whatever froze it was not CRIU
		}
		var files []string
		frozen, running := "1", "0"
		switch fields[1] {
		case "freezer":
			files = []string{filepath.Join("freezer", own, "freezer.state")}
			frozen, running = "FROZEN", "THAWED"
		case "":
			files = []string{filepath.Join(own, "cgroup.freeze"), filepath.Join("unified", own, "cgroup.freeze")}
		}
		for _, file := range files {
			was, err := release(filepath.Join(root, "sys/fs/cgroup", file), frozen, running)
			took = took || was
			errs = append(errs, err)
		}
	}
	return took, errors.Join(errs...)
}

// ancestor returns the cgroup above a process's own (or that itself) which is named after the
// container. A container may have cgroups of its own below, and freeze them.
func ancestor(path, id string) string {
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		if strings.Contains(filepath.Base(path), id) {
			return path
		}
	}
	return ""
}

// release writes running into a file of the freezer's that does not say so.
func release(file, frozen, running string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	state := strings.TrimSpace(string(text))
	if err != nil || state != frozen && state != "FREEZING" {
		return false, err
	}
	return true, os.WriteFile(file, []byte(running), 0)
}
