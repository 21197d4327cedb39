// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signed is a small release, signed by a key that is made for the test.
type signed struct {
	folder string
	env    []string // of scripts/signature: both halves of the key
}

func newSigned(t *testing.T) signed {
	t.Helper()
	s := signed{folder: t.TempDir()}
	s.env = newKey(t)
	for name, text := range map[string]string{"weir-1.2.3-linux-amd64.tar.gz": "program", "weir.deb": "package"} {
		s.put(t, name, text)
	}
	s.sum(t)
	if code, out := run(t, s.env, "signature", "sign", s.folder); code != 0 {
		t.Fatalf("exit code %d, %s", code, out)
	}
	return s
}

// newKey makes a key without a password.
func newKey(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	pub, key := filepath.Join(folder, "release.pub"), filepath.Join(folder, "release.key")
	if out, err := exec.Command("minisign", "-G", "-W", "-p", pub, "-s", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s: scripts/deps release installs minisign", err, out)
	}
	return []string{"WEIR_RELEASE_KEY=" + key, "WEIR_RELEASE_PUB=" + pub}
}

func (s signed) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sum writes SHA256SUMS over what is there, as make release does.
func (s signed) sum(t *testing.T) {
	t.Helper()
	var text strings.Builder
	for _, name := range []string{"weir-1.2.3-linux-amd64.tar.gz", "weir.deb"} {
		content, err := os.ReadFile(filepath.Join(s.folder, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), name)
	}
	s.put(t, "SHA256SUMS", text.String())
}

// TestSignature: a release passes as it was signed, and no other one does.
func TestSignature(t *testing.T) {
	remove := func(name string) func(*testing.T, *signed) {
		return func(t *testing.T, s *signed) {
			if err := os.Remove(filepath.Join(s.folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		alter func(*testing.T, *signed)
		code  int
		says  string
	}{
		"as it was signed": {func(*testing.T, *signed) {}, 0, "is as it was signed"},
		"altered tarball":  {func(t *testing.T, s *signed) { s.put(t, "weir-1.2.3-linux-amd64.tar.gz", "another") }, 1, "has not the files that SHA256SUMS names"},
		"altered tarball and sums": {func(t *testing.T, s *signed) {
			s.put(t, "weir-1.2.3-linux-amd64.tar.gz", "another")
			s.sum(t)
		}, 1, "is not one of"},
		"another key": {func(t *testing.T, s *signed) { s.env = newKey(t) }, 1, "is not one of"},
		"signed anew by another key": {func(t *testing.T, s *signed) {
			pub := s.env[1]
			s.put(t, "weir-1.2.3-linux-amd64.tar.gz", "another")
			s.sum(t)
			s.env = newKey(t)
			if code, out := run(t, s.env, "signature", "sign", s.folder); code != 0 {
				t.Fatal(out)
			}
			s.env[1] = pub
		}, 1, "is not one of"},
		"a further file": {func(t *testing.T, s *signed) { s.put(t, "weir.rpm", "another") }, 1, "weir.rpm is in"},
		"a missing file": {remove("weir.deb"), 1, "has not the files that SHA256SUMS names"},
		"no signature":   {remove("SHA256SUMS.minisig"), 3, "is not signed"},
		"no public key":  {func(_ *testing.T, s *signed) { s.env[1] = "WEIR_RELEASE_PUB=/nowhere" }, 3, "NOT VERIFIED"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigned(t)
			c.alter(t, &s)
			code, out := run(t, s.env, "signature", "verify", s.folder)
			if code != c.code || !strings.Contains(out, c.says) || code != 0 && strings.Contains(out, "is as it was signed") {
				t.Errorf("exit code %d, %s\nwant %d, %q", code, out, c.code, c.says)
			}
		})
	}
}

// TestSignatureOverAnotherBuild: the signature holds for the sums of another build of the same
// bytes, and for no other sums.
func TestSignatureOverAnotherBuild(t *testing.T) {
	s, second := newSigned(t), newSigned(t)
	sums := filepath.Join(second.folder, "SHA256SUMS")
	if code, out := run(t, s.env, "signature", "verify", "--sums", sums, s.folder); code != 0 {
		t.Errorf("the same build: exit code %d, %s", code, out)
	}
	second.put(t, "weir.deb", "another")
	second.sum(t)
	if code, out := run(t, s.env, "signature", "verify", "--sums", sums, s.folder); code != 1 {
		t.Errorf("another build: exit code %d, %s", code, out)
	}
}

// TestSigningByAWrongKey: what users could not verify is not left behind, and without a key
// nothing looks signed.
func TestSigningByAWrongKey(t *testing.T) {
	s := newSigned(t)
	wrong := []string{newKey(t)[0], s.env[1]}
	for _, c := range []struct {
		env  []string
		code int
		says string
	}{{wrong, 1, "is not the secret half"}, {[]string{"WEIR_RELEASE_KEY="}, 3, "NOT SIGNED"}, {[]string{"WEIR_RELEASE_KEY=/nowhere"}, 3, "no such key"}} {
		code, out := run(t, c.env, "signature", "sign", s.folder)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit code %d, %s", c.env, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(s.folder, "SHA256SUMS.minisig")); err == nil {
		t.Error("a signature by the wrong key is left")
	}
}

// TestWhatIsSigned: the signature says the version of the release, whatever tree signs it, and
// there is none over files that are not those of the sums, or of two versions.
func TestWhatIsSigned(t *testing.T) {
	s := newSigned(t)
	if _, out := run(t, s.env, "signature", "verify", s.folder); !strings.Contains(out, "Trusted comment: weir 1.2.3\n") {
		t.Errorf("signed as %s", out)
	}
	for says, alter := range map[string]func(s *signed){
		"has not the files": func(s *signed) { s.put(t, "weir.deb", "another") },
		"one version": func(s *signed) {
			sum := fmt.Sprintf("%x", sha256.Sum256([]byte("program")))
			s.put(t, "weir-1.2.4-linux-amd64.tar.gz", "program")
			s.put(t, "SHA256SUMS", sum+"  weir-1.2.3-linux-amd64.tar.gz\n"+sum+"  weir-1.2.4-linux-amd64.tar.gz\n")
		},
		"was not signed": func(s *signed) { s.put(t, ".hidden.deb", "another") },
	} {
		s := newSigned(t)
		alter(&s)
		verb := "sign"
		if says == "was not signed" {
			verb = "verify"
		}
		if code, out := run(t, s.env, "signature", verb, s.folder); code != 1 || !strings.Contains(out, says) {
			t.Errorf("%s: exit code %d, %s", says, code, out)
		}
	}
}

// TestReleaseOfWhatIsCommitted: a file that is in no commit, which Go would build in, stops a
// release.
func TestReleaseOfWhatIsCommitted(t *testing.T) {
	tree := t.TempDir()
	for _, args := range [][]string{{"clone", "-q", "--depth", "1", "file://" + root(t), tree}, {"-C", tree, "rm", "-q", "scripts/versions"},
		{"-C", tree, "-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "-qm", "without what comes next"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, "internal/base/version/more.go"), []byte("package version\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(tree, "scripts/release"), t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "?? internal/base/version/more.go") {
		t.Errorf("%v, %s", err, out)
	}
}

func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
