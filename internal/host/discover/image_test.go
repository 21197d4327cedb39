// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"maps"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"weir/internal/host/discover/engine"
	"weir/internal/test/dockertest"
)

// A real engine gives a container the labels of its image. They are told from the labels
// that it was started with, and an image puts no container into a compose project.
func TestRealLabelsOfAnImage(t *testing.T) {
	e := realEngine(t)
	ctx := t.Context()
	maker := run(t, e, dockertest.Container{Name: "maker"})
	const ref = "baked:1"
	_, err := e.Client().ContainerCommit(ctx, maker, container.CommitOptions{Reference: ref, Changes: []string{
		"LABEL weir.weight=7", "LABEL weir.min=50mbit", "LABEL com.docker.compose.project=tenant", "LABEL com.example=x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = e.Client().ImageRemove(t.Context(), ref, image.RemoveOptions{Force: true}) })
	labels := map[string]string{"weir.min": "20mbit", "weir.max": "30mbit"}
	run(t, e, dockertest.Container{Name: "early", Image: ref, Labels: labels})
	_, r := realDocker(t, e) // finds one that runs, and one that starts
	run(t, e, dockertest.Container{Name: "late", Image: ref, Labels: labels})
	run(t, e, dockertest.Container{Name: "plain", Labels: map[string]string{"weir.weight": "7", engine.ComposeProject: "office"}})
	for _, name := range []string{"early", "late"} {
		w := r.waitFor("docker:"+name, "with a device", withDevices(1))
		if w.Labels["weir.weight"] != "7" || w.Labels["weir.min"] != "20mbit" || w.Group != "" {
			t.Errorf("%s: labels %v, group %q", name, w.Labels, w.Group)
		}
		want := map[string]string{"weir.weight": "7", engine.ComposeProject: "tenant"}
		if !maps.Equal(w.ImageLabels, want) {
			t.Errorf("%s: labels of the image %v, want %v", name, w.ImageLabels, want)
		}
	}
	if w := r.waitFor("docker:plain", "with a device", withDevices(1)); len(w.ImageLabels) > 0 || w.Group != "office" {
		t.Errorf("plain: labels of the image %v, group %q", w.ImageLabels, w.Group)
	}
}
