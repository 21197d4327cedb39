// SPDX-License-Identifier: Apache-2.0

package tlsfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
)

// TestFilesThatOthersMayChange: authorities, certificates, keys and secrets are refused where
// another user could put one in their place.
func TestFilesThatOthersMayChange(t *testing.T) {
	var f tlsfile.Files
	issue := func(which func(tlsfile.Files) string) func(t *testing.T) string {
		return func(t *testing.T) string {
			f = tlstest.New(t, "authority").Issue(t, "server")
			return which(f)
		}
	}
	check := func(string) error { return f.Check() }
	t.Run("authority", func(t *testing.T) {
		safepathtest.Refused(t, issue(func(f tlsfile.Files) string { return f.CA }), check)
	})
	t.Run("certificate", func(t *testing.T) {
		safepathtest.Refused(t, issue(func(f tlsfile.Files) string { return f.Cert }), check)
	})
	t.Run("key", func(t *testing.T) {
		safepathtest.Refused(t, issue(func(f tlsfile.Files) string { return f.Key }), check)
	})
	t.Run("secret", func(t *testing.T) {
		safepathtest.Refused(t, func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, func(path string) error {
			_, err := tlsfile.Secret(path)
			return err
		})
	})
}

// TestExchangedSecret: while a secret changes places with that of another user, 1,000 readers
// see root's or none.
func TestExchangedSecret(t *testing.T) {
	safepathtest.NeedsRoot(t)
	path := filepath.Join(t.TempDir(), "secret")
	for file, text := range map[string]string{path: "root's", path + "-foreign": "foreign"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(path+"-foreign", safepathtest.Stranger, 0); err != nil {
		t.Fatal(err)
	}
	defer safepathtest.Exchange(t, path, path+"-foreign")()
	for range 1000 {
		if text, err := tlsfile.Secret(path); err == nil && text != "root's" {
			t.Fatalf("a reader has seen %q", text)
		}
	}
}
