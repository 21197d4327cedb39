// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rootOfCRIU is the folder in which runc shows CRIU the root of a container that it restores. It
// unmounts that when CRIU has ended.
const rootOfCRIU = "criu-root"

// State removes what a runtime that was killed during a restore has left of a container in its
// own folder: a mount, and its state, with which it would take no other container of the id.
// runtime is the runtime's program, roots are folders in which it keeps states, beside those in
// which a mount is found. No container of the id may run.
func State(ctx context.Context, p EngineNamespace, id, runtime string, roots ...string) error {
	mounts, err := p.mounts()
	if err != nil {
		return err
	}
	var errs []error
	try := func(args ...string) {
		if out, err := p.Command(ctx, args...).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out))))
		}
	}
	for _, dir := range mounts {
		if own := filepath.Dir(dir); filepath.Base(dir) == rootOfCRIU && filepath.Base(own) == id {
			try("umount", dir)
			roots = append(roots, filepath.Dir(own))
		}
	}
	for _, root := range roots {
		try(runtime, "--root", root, "delete", "--force", id) // it is no error that there is nothing
	}
	return errors.Join(errs...)
}

// mounts lists the paths at which something is mounted, the last first.
func (p EngineNamespace) mounts() (list []string, err error) {
	file := "/proc/self/mountinfo"
	if proc, ok := strings.CutSuffix(filepath.Clean(p.Root), "/root"); ok {
		file = proc + "/mountinfo"
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			list = append([]string{fields[4]}, list...)
		}
	}
	return list, nil
}
