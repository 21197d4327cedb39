// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/safepath/safepathtest"
)

// TestJoinToken: a token comes from a file, from the standard input or, with a warning,
// from the command line; any other text gives one clear error.
func TestJoinToken(t *testing.T) {
	dir := t.TempDir()
	file, large := filepath.Join(dir, "token"), filepath.Join(dir, "large")
	for name, text := range map[string]string{file: " 3fa9c1.abc.def\n", large: strings.Repeat("x", maxToken+1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name          string
		flags         joinToken
		file, stdin   string
		want, refusal string
		warned        bool
	}{
		{name: "none"},
		{name: "command line", flags: joinToken{text: "1.2.3"}, want: "1.2.3", warned: true},
		{name: "command line, and a file in weir.yaml", flags: joinToken{text: "1.2.3"}, file: file, want: "1.2.3", warned: true},
		{name: "file", flags: joinToken{file: file}, file: file, stdin: "other", want: "3fa9c1.abc.def"},
		{name: "removed since", file: filepath.Join(dir, "gone")},
		{name: "standard input", flags: joinToken{file: "-"}, file: "-", stdin: "4.5.6\n", want: "4.5.6"},
		{name: "empty standard input", flags: joinToken{file: "-"}, file: "-", stdin: "\n", refusal: "pipe the token into it"},
		{name: "both", flags: joinToken{text: "1.2.3", file: file}, file: file, refusal: "leave --token out"},
		{name: "a folder", flags: joinToken{file: dir}, file: dir, refusal: "token " + dir + ": is no regular file"},
		{name: "large file", flags: joinToken{file: large}, file: large, refusal: "write the token and nothing else"},
		{name: "large standard input", flags: joinToken{file: "-"}, file: "-", stdin: strings.Repeat("x", 1<<20), refusal: "write the token and nothing else"},
	} {
		var log bytes.Buffer
		got, err := test.flags.read(test.file, strings.NewReader(test.stdin), slog.New(slog.NewTextHandler(&log, nil)))
		if got != test.want || (err == nil) != (test.refusal == "") || err != nil && !strings.Contains(err.Error(), test.refusal) {
			t.Errorf("%s: %q, %v; want %q, %q", test.name, got, err, test.want, test.refusal)
		}
		if warned := strings.Contains(log.String(), "--token-file"); warned != test.warned || strings.Contains(log.String(), "1.2.3") {
			t.Errorf("%s: log %q", test.name, log.String())
		}
	}
}

// TestTokenFileThatOthersMayChange: the agent joins by no token that another user could exchange:
// it would join that user's cluster.
func TestTokenFileThatOthersMayChange(t *testing.T) {
	safepathtest.Refused(t, func(t *testing.T) string {
		path := t.TempDir() + "/above/folder/token"
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("a token"), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}, func(path string) error {
		_, err := joinToken{file: path}.read(path, nil, slog.New(slog.DiscardHandler))
		return err
	})
}
