// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckPlotDir makes the folder that timelines are drawn into and tries to write
// there, so that a wrong one is found before anything is measured.
func CheckPlotDir(dir string) error {
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".weir-*"); err == nil {
			return errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("--plot %q: cannot be written: %w; name a folder that can", dir, err)
}
