// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/safepath"
	"weir/internal/base/safepath/safepathtest"
	"weir/internal/config"
)

// TestFilesThatOthersMayChange: what an agent reads, runs and writes by its configuration is
// refused at the start, and at a reload, which calls the same function.
func TestFilesThatOthersMayChange(t *testing.T) {
	for name, text := range map[string]string{
		"program":     "tell: {command: {run: ['FILE']}}\n",
		"secret":      "tell: {webhook: {url: 'https://example.org/', secret_file: 'FILE'}}\n",
		"certificate": "web: {listen: '0.0.0.0:7480', tls: {cert: 'FILE', key: /etc/weir/none.key}}\n",
		"key":         "web: {listen: '0.0.0.0:7480', tls: {cert: /etc/weir/none.cert, key: 'FILE'}}\n",
		"token":       "cluster: {manager: '192.0.2.1:7470', token_file: 'FILE'}\n",
		"prefixes":    "links: [{device: eth0, egress: 1gbit, zones: {cdn: {egress: 300mbit, prefixes_file: 'FILE'}}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			safepathtest.Refused(t, func(t *testing.T) string { return write(t, "192.0.2.0/24\n") }, func(path string) error {
				_, err := loadConfig(write(t, strings.ReplaceAll(text, "FILE", path)), Overrides{}, config.Load)
				return err
			})
		})
	}
	t.Run("configuration", func(t *testing.T) {
		safepathtest.Refused(t, func(t *testing.T) string { return write(t, "links: []\n") }, func(path string) error {
			_, err := loadConfig(path, Overrides{}, config.Load)
			var unread *config.FileError
			if err != nil && !errors.As(err, &unread) {
				t.Errorf("%T: the exit code is another", err)
			}
			return err
		})
	})
	t.Run("state", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600); err != nil { // an empty one is shut
			t.Fatal(err)
		}
		file := write(t, "state_dir: '"+dir+"/new'\n")
		for _, mode := range []os.FileMode{0o755, 0o775, 0o757} {
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			_, err := loadConfig(file, Overrides{}, config.Load)
			_, byFlag := loadConfig(write(t, "links: []\n"), Overrides{StateDir: dir}, config.Load)
			var refused *safepath.Error
			if wrong := mode&0o022 != 0; errors.As(err, &refused) != wrong || errors.As(byFlag, &refused) != wrong {
				t.Errorf("mode %o: %v, by flag: %v", mode, err, byFlag)
			}
		}
	})
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
