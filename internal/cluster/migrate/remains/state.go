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
// own folder: with that there, it would take no other container of the id. runtime is the
// runtime's command, with its --root if that is not the default. No container of the id may run.
func State(ctx context.Context, p Place, id string, runtime ...string) error {
	mounts, err := p.mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range mounts {
		if filepath.Base(dir) != rootOfCRIU || filepath.Base(filepath.Dir(dir)) != id {
			continue
		}
		if out, err := p.Command(ctx, "umount", dir).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w: %s", dir, err, strings.TrimSpace(string(out))))
		}
	}
	// With --force it is no error that there is nothing.
	if out, err := p.Command(ctx, append(runtime, "delete", "--force", id)...).CombinedOutput(); err != nil {
		errs = append(errs, fmt.Errorf("%s delete: %w: %s", runtime[0], err, strings.TrimSpace(string(out))))
	}
	return errors.Join(errs...)
}

// mounts lists the paths at which something is mounted, the last first.
func (p Place) mounts() (list []string, err error) {
	file := "/proc/self/mountinfo"
	if proc, ok := strings.CutSuffix(p.Root, "/root/"); ok {
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
