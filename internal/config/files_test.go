// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/safepath/safepathtest"
)

// wrote returns the path of a file of a test's.
func wrote(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFileThatOthersMayChange: a configuration that another user could write is not read, and a
// user who asks what is in it is told so.
func TestFileThatOthersMayChange(t *testing.T) {
	safepathtest.Refused(t, func(t *testing.T) string { return wrote(t, "links: []\n") }, func(path string) error {
		_, err := Load(path)
		c, failed := Inspect(path)
		if refused := c.Refused(); failed != nil || (err == nil) != (len(refused) == 0) {
			t.Errorf("inspected: %v %v, loaded: %v", refused, failed, err)
		}
		return err
	})
}

// TestExchangedFile: while a configuration changes places with one of another user, 1,000
// readers see root's or none.
func TestExchangedFile(t *testing.T) {
	safepathtest.NeedsRoot(t)
	path := wrote(t, "state_dir: /root\n")
	foreign := path + "-foreign"
	if err := errors.Join(os.WriteFile(foreign, []byte("state_dir: /foreign\n"), 0o600), os.Chown(foreign, safepathtest.Stranger, 0)); err != nil {
		t.Fatal(err)
	}
	defer safepathtest.Exchange(t, path, foreign)()
	for range 1000 {
		if c, err := Load(path); err == nil && c.StateDir != "/root" {
			t.Fatalf("a reader has seen %s", c.StateDir)
		}
	}
}

// TestNamedFiles: each file that a configuration names is checked, agent's and manager's.
func TestNamedFiles(t *testing.T) {
	const text = `
state_dir: FILE/state
metrics: {listen: "0.0.0.0:9469", tls: {cert: FILE/metrics.cert, key: FILE/metrics.key, client_ca: FILE/metrics.ca}}
web: {listen: "0.0.0.0:7480", tls: {cert: FILE/web.cert, key: FILE/web.key}}
sdn: {ovsdb: "ssl:192.0.2.1:6640", tls: {ca: FILE/sdn.ca, cert: FILE/sdn.cert, key: FILE/sdn.key}}
tell:
  webhook: {url: "https://example.org/", secret_file: FILE/secret, ca: FILE/tell.ca}
  command: {run: [FILE/program, FILE/argument]}
cluster:
  manager: "192.0.2.1:7470"
  token_file: FILE/token
  kafka: {tls: {ca: FILE/kafka.ca}, sasl: {mechanism: PLAIN, user: x, password_file: FILE/password}}
manager: {state_dir: FILE/manager, web: {listen: "0.0.0.0:7481", tls: {cert: FILE/m.cert, key: FILE/m.key}}}
`
	c, err := Parse("weir.yaml", []byte(strings.ReplaceAll(text, "FILE", "/weir")))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range append(c.Files(), c.Manager.Files()...) {
		found[f.Path] = true
	}
	for word := range strings.FieldsFuncSeq(strings.ReplaceAll(text, "FILE", "/weir"), func(r rune) bool { return strings.ContainsRune(" ,[]{}\n", r) }) {
		if strings.HasPrefix(word, "/weir/") && !found[word] && word != "/weir/argument" {
			t.Errorf("%s is not among the files", word)
		}
	}
	safepathtest.Refused(t, func(t *testing.T) string { return wrote(t, "") }, func(path string) error {
		return CheckFiles([]NamedFile{{Field: "state_dir", Path: path + "-none"}, {Field: "tell.command.run", Path: path}})
	})
	// A tmpfs for the state is open, and shut before it is used; a folder with something in it
	// is not.
	dir := t.TempDir()
	for _, filled := range []bool{false, true} {
		if filled {
			if err := os.WriteFile(filepath.Join(dir, "state.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		if err := CheckFiles([]NamedFile{{"state_dir", dir, true}}); (err != nil) != filled {
			t.Errorf("an open folder of state, something in it %v: %v", filled, err)
		}
	}
}
