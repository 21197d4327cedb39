// SPDX-License-Identifier: Apache-2.0

// Package scripts_test tests the scripts that watch what the program is made of.
package scripts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs a script with variables in its environment and returns its exit code and
// what it says.
func run(t *testing.T, env []string, script string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("./"+script, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLicences: all modules of the program are allowed, and without one of the lines
// of the list the check fails and names the module.
func TestLicences(t *testing.T) {
	if testing.Short() {
		t.Skip("go-licenses takes half a minute")
	}
	if code, out := run(t, nil, "licenses"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	list, err := os.ReadFile("../tools/licenses.txt")
	if err != nil {
		t.Fatal(err)
	}
	for without, module := range map[string]string{
		"allow MPL-2.0\n":                    "hashicorp/golang-lru",
		"module github.com/golang/freetype ": "golang/freetype/raster v0.0.0-20170609003504-e2365dfdc4a0 has the licence Unknown",
	} {
		if !strings.Contains(string(list), without) {
			t.Fatalf("the list has no %q", without)
		}
		less := write(t, "licenses.txt", strings.ReplaceAll(string(list), without, "# "), 0o600)
		if code, out := run(t, nil, "licenses", "--allowed", less); code != 1 || !strings.Contains(out, module) {
			t.Errorf("without %q: exit code %d, %s", without, code, out)
		}
	}
}

// TestKubernetesModule: the module that Kubernetes is built from has the versions that
// scripts/kubernetes names, and a replacement of that release for each folder that
// Kubernetes' own module has in its place.
func TestKubernetesModule(t *testing.T) {
	script, err := os.ReadFile("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../tools/kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z]+)=([0-9.]+)$`).FindAllStringSubmatch(string(script), -1) {
		versions[m[1]] = m[2]
	}
	for _, line := range []string{"k8s.io/kubernetes v" + versions["KUBERNETES"], "go.etcd.io/etcd/server/v3 v" + versions["ETCD"]} {
		if !strings.Contains(string(module), line) {
			t.Errorf("tools/kubernetes/go.mod has no %q; run scripts/kubernetes --update", line)
		}
	}
	_, minor, _ := strings.Cut(versions["KUBERNETES"], ".")
	replaced := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => k8s\.io/\S+ (\S+)$`).FindAllStringSubmatch(string(module), -1)
	if len(replaced) < 30 {
		t.Errorf("tools/kubernetes/go.mod replaces %d modules", len(replaced))
	}
	for _, r := range replaced {
		if r[1] != "v0."+minor {
			t.Errorf("tools/kubernetes/go.mod: %s; want v0.%s: run scripts/kubernetes --update", strings.TrimSpace(r[0]), minor)
		}
	}
}

// TestVulnerabilitiesNotLookedFor: a check that could not be made never looks like one
// that found nothing.
func TestVulnerabilitiesNotLookedFor(t *testing.T) {
	for tool, want := range map[string]struct {
		code int
		text string
	}{
		"exit 0": {0, "found none"},
		"exit 3": {1, "FOUND"},
		"exit 1": {3, "NOT RUN"},
		"exit 2": {3, "NOT RUN"},
		"echo no vulnerabilities found; kill -9 $$": {3, "NOT RUN"},
	} {
		path := write(t, "govulncheck", "#!/bin/sh\n"+tool+"\n", 0o700)
		code, out := run(t, []string{"GOVULNCHECK=" + path}, "vulnerabilities")
		if code != want.code || !strings.Contains(out, want.text) || code != 0 && strings.Contains(out, "found none") {
			t.Errorf("govulncheck does %q: exit code %d, %q; want %d, %q", tool, code, out, want.code, want.text)
		}
	}
	if code, out := run(t, []string{"GOVULNCHECK=/nowhere/govulncheck"}, "vulnerabilities"); code != 3 || !strings.Contains(out, "NOT RUN") {
		t.Errorf("no govulncheck: exit code %d, %q", code, out)
	}
}

// TestVersions: what goes into the program has to have the version of the lock when a
// release is built; another version of a tool, as after a security update, stops nothing.
func TestVersions(t *testing.T) {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		t.Skip("this is no Debian: ", err)
	}
	have := func(name string) string {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, tt := range []struct {
		name, lock, release string
		strict, lax         int
		text                string
	}{
		{"the same", "here dpkg " + have("dpkg") + " artefact\n", "here", 0, 0, ""},
		{"another artefact", "here dpkg 1.0 artefact\n", "here", 1, 0, "scripts/deps --update-lock"},
		{"an artefact that is missing", "here no-such-package 1.0 artefact\n", "here", 1, 0, "not installed"},
		{"another tool", "here dpkg " + have("dpkg") + " artefact\nhere bash 1.0 tool\n", "here", 0, 0, "note: bash is"},
		{"a tool that is missing", "here dpkg " + have("dpkg") + " artefact\nhere no-such-package 1.0 tool\n", "here", 0, 0, ""},
		{"another Debian", "there dpkg 1.0 artefact\n", "here", 1, 0, "nothing for Debian here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := []string{"PACKAGES_LOCK=" + write(t, "packages.lock", "# a comment\n"+tt.lock, 0o600), "DEBIAN_RELEASE=" + tt.release}
			code, out := run(t, env, "versions", "check", "--strict")
			if code != tt.strict || !strings.Contains(out, tt.text) || tt.text == "" && out != "" {
				t.Errorf("strict: exit code %d, %q; want %d, %q", code, out, tt.strict, tt.text)
			}
			if code, out := run(t, env, "versions", "check"); code != tt.lax {
				t.Errorf("exit code %d, %q; want %d", code, out, tt.lax)
			}
		})
	}
}
