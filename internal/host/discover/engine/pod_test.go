// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// TestPods: the container with a pod's network is called like the pod, and Podman is asked once;
// another engine's container with such a name keeps it.
func TestPods(t *testing.T) {
	const infra = "44a323d83f01"
	for name, pod := range map[string]string{"podman": "shop", "docker": ""} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "sock")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			engine := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if want := "/v4.0.0/libpod/pods/" + infra + "/json"; r.URL.Path != want {
					t.Errorf("asked %s, want %s", r.URL.Path, want)
				}
				if pod == "" {
					http.NotFound(w, r)
					return
				}
				fmt.Fprintf(w, `{"Id":"%s0","Name":%q,"Containers":[]}`, infra, pod)
			})}
			go func() { _ = engine.Serve(listener) }()
			t.Cleanup(func() { _ = engine.Close() })
			e, err := NewDocker("unix://" + socket)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			want := pod
			if want == "" {
				want = infra + "-infra"
			}
			for range 3 {
				c := Container{Name: infra + "-infra"}
				if e.asPod(t.Context(), &c); c.Name != want || asked != 1 {
					t.Errorf("called %q, want %q, asked %d times", c.Name, want, asked)
				}
			}
			for _, other := range []string{"web", "44a323d83f0-infra", "my-infra"} {
				c := Container{Name: other}
				if e.asPod(t.Context(), &c); c.Name != other || asked != 1 {
					t.Errorf("%s called %q, asked %d times", other, c.Name, asked)
				}
			}
		})
	}
}
