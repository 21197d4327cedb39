// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// programs builds the programs once, and returns their folder.
func programs(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", folder, "../cmd/weir", "../cmd/weir-manager", "../cmd/weir-lab", "../cmd/weir-kubernetes", "../cmd/kubectl-weir").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// files lists what is below a folder.
func files(t *testing.T, folder string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, strings.TrimPrefix(path, folder))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestInstallAndPackages: make install installs all that a host needs, and keeps a weir.yaml that
// is there; make uninstall removes all of it but that. The package of Debian has the same files and
// its documents, and two builds give the same bytes.
func TestInstallAndPackages(t *testing.T) {
	bin := programs(t)
	root := t.TempDir()
	install := func(args ...string) {
		t.Helper()
		if code, out := run(t, []string{"DESTDIR=" + root, "WEIR=" + bin + "/weir"}, "install", append([]string{"--bin", bin}, args...)...); code != 0 {
			t.Fatalf("install %q: exit code %d: %s", args, code, out)
		}
	}
	install("weir")
	installed := files(t, root)
	for _, want := range []string{
		"/usr/bin/weir", "/etc/weir/weir.yaml", "/usr/lib/sysusers.d/weir.conf", "/usr/lib/tmpfiles.d/weir.conf",
		"/usr/lib/systemd/system/weir.service", "/usr/lib/systemd/system/weir-manager.service",
		"/usr/lib/systemd/system/weir-migrate.service", "/usr/lib/systemd/system/weir-migrate.socket",
		"/usr/share/bash-completion/completions/weir", "/usr/share/zsh/vendor-completions/_weir", "/usr/share/fish/vendor_completions.d/weir.fish",
		"/usr/share/man/man1/weir.1.gz", "/usr/share/man/man1/weir-set.1.gz", "/usr/share/man/man5/weir.yaml.5.gz",
	} {
		if !slices.Contains(installed, want) {
			t.Errorf("make install does not install %s", want)
		}
	}
	for _, want := range append(referred(t), "deploy/monitoring/weir.rules.yaml", "deploy/monitoring/weir-links.json", "deploy/compose.yaml") {
		if !slices.Contains(installed, "/usr/share/doc/weir/"+want) {
			t.Errorf("make install does not install %s, to which the program or weir.yaml refers", want)
		}
	}
	mine := filepath.Join(root, "etc/weir/weir.yaml")
	if err := os.WriteFile(mine, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	install("weir", "weir-manager", "weir-lab", "weir-kubernetes")
	if text, err := os.ReadFile(mine); err != nil || string(text) != "# mine\n" {
		t.Errorf("weir.yaml is %q, %v", text, err)
	}
	install("--remove", "weir", "weir-manager", "weir-lab", "weir-kubernetes")
	if left := files(t, root); !slices.Equal(left, []string{"/etc/weir/weir.yaml"}) {
		t.Errorf("make uninstall leaves %q", left)
	}
	debian(t, bin, installed)
}

// referred returns the pages that the help of commands and the example of weir.yaml name.
func referred(t *testing.T) (pages []string) {
	t.Helper()
	for _, path := range []string{"../docs/cli.md", "../deploy/weir.yaml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, regexp.MustCompile(`docs/[a-z-]+\.md`).FindAllString(string(text), -1)...)
	}
	if len(pages) < 10 {
		t.Errorf("only %q are named", pages)
	}
	return pages
}

// debian builds the package weir twice of the same program.
func debian(t *testing.T, bin string, installed []string) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Fatal("this is no Debian: ", err)
	}
	// As scripts/programs leaves them, whose licences another test looks at.
	built := t.TempDir()
	folder := filepath.Join(built, runtime.GOARCH, "weir")
	for _, command := range []string{
		"mkdir -p " + folder + "/licences/third-party", "cp " + bin + "/weir " + folder,
		"cp ../LICENSES/Apache-2.0.txt " + folder + "/licences", "cp /dev/null " + folder + "/weir.spdx.json",
		"printf 'example.org/module\\tv1.2.3\\tMIT\\n' >" + folder + "/licences.txt",
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	var packages [2][]byte
	var deb string
	for i := range packages {
		to := t.TempDir()
		if code, out := run(t, nil, "packages", "--programs", built, "--only", "weir", "--version", "1.0", to); code != 0 {
			t.Fatalf("packages: exit code %d: %s", code, out)
		}
		for _, suffix := range []string{"weir_1.0_" + runtime.GOARCH + ".deb", "weir-1.0-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + ".rpm"} {
			text, err := os.ReadFile(filepath.Join(to, suffix))
			if err != nil {
				t.Fatal(err)
			}
			packages[i] = append(packages[i], text...)
		}
		deb = filepath.Join(to, "weir_1.0_"+runtime.GOARCH+".deb")
	}
	if !bytes.Equal(packages[0], packages[1]) {
		t.Error("two builds of the packages differ")
	}
	ask := func(args ...string) string {
		out, err := exec.Command("dpkg-deb", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg-deb %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	unpacked := t.TempDir()
	ask("--raw-extract", deb, unpacked)
	have := files(t, unpacked)
	documents := []string{"copyright", "changelog.gz", "changelog.Debian.gz", "weir.spdx.json", "licences/Apache-2.0.txt"}
	for i := range documents {
		documents[i] = "/usr/share/doc/weir/" + documents[i]
	}
	for _, want := range append(documents, installed...) {
		if !slices.Contains(have, want) {
			t.Errorf("the package lacks %s", want)
		}
	}
	if got := ask("--info", deb, "conffiles"); got != "/etc/weir/weir.yaml\n" {
		t.Errorf("configuration files %q", got)
	}
	copyright, err := os.ReadFile(filepath.Join(unpacked, "usr/share/doc/weir/copyright"))
	if err != nil || !strings.Contains(string(copyright), " example.org/module v1.2.3: MIT\n") || !strings.Contains(string(copyright), "Redistributions in binary form") {
		t.Errorf("%v: copyright %s", err, copyright)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if out, err := exec.Command("sh", "-n", filepath.Join(unpacked, "DEBIAN", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", script, out)
		}
	}
}
