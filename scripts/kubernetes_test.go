// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubernetesFromAnEmptyCache runs scripts/kubernetes with a compiler and an image that do
// nothing: with an empty cache it builds, and says where, and the second call finds that. A
// build that fails leaves nothing behind.
func TestKubernetesFromAnEmptyCache(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	put("scripts/kubernetes", string(script))
	put("tools/kubernetes/go.mod", "module x\n")
	put("tools/kubernetes/etcd/main.go", "package main\n")
	put("scripts/image", `#!/bin/bash
temp=$(mktemp -d)
mkdir -p "$temp/bin"
printf '#!/bin/sh\necho sleep\necho nc\n' >"$temp/bin/busybox"
chmod +x "$temp/bin/busybox"
tar --create --file="$1" --directory="$temp" ./bin/busybox
rm -r "$temp"
`)
	for _, stage := range []string{"node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete"} {
		put("kwok/kustomize/stage/"+stage+".yaml", "kind: Stage\n")
	}
	put("bin/go", "#!/bin/sh\nif [ \"$1\" = mod ]; then echo '{\"Dir\": \""+root+"/kwok\"}'; exit; fi\necho \"$GOBIN $*\" >>"+root+"/built\ntest ! -e "+root+"/broken\n")
	cache := filepath.Join(root, "cache")
	call := func() (out string, failed error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/kubernetes"))
		cmd.Env = append(os.Environ(), "WEIR_CACHE="+cache, "PATH="+root+"/bin:"+os.Getenv("PATH"))
		cmd.Stderr = t.Output()
		text, err := cmd.Output()
		return strings.TrimSpace(string(text)), err
	}
	entries := func() []string {
		list, err := filepath.Glob(cache + "/kubernetes-*")
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	put("broken", "")
	if out, err := call(); err == nil || out != "" || len(entries()) != 0 {
		t.Errorf("with a compiler that fails: %q, %v, the cache has %q", out, err, entries())
	}
	if err := os.Remove(filepath.Join(root, "broken")); err != nil {
		t.Fatal(err)
	}
	first, err := call()
	if err != nil || len(entries()) != 1 || entries()[0] != first {
		t.Fatalf("from an empty cache: %q, %v, the cache has %q", first, err, entries())
	}
	if _, err := os.Stat(filepath.Join(first, "image.tar")); err != nil {
		t.Error(err)
	}
	if stages, err := os.ReadFile(filepath.Join(first, "stages")); err != nil || strings.Count(string(stages), "kind: Stage") != 5 {
		t.Errorf("kwok's stages: %v, %q", err, stages)
	}
	if err := os.Remove(filepath.Join(root, "built")); err != nil {
		t.Fatal(err)
	}
	if again, err := call(); err != nil || again != first {
		t.Errorf("the second call: %q, %v", again, err)
	}
	if built, err := os.ReadFile(filepath.Join(root, "built")); err == nil {
		t.Errorf("the second call built again: %s", built)
	}
}
