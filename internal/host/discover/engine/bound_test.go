// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"weir/internal/core/bound"
)

// TestLabelsOfAContainerAreBounded: what is kept of a container does not grow with its labels.
func TestLabelsOfAContainerAreBounded(t *testing.T) {
	labels := map[string]string{"weir.weight": "3", "weir.queues": strings.Repeat("[", 40000), ComposeProject: "shop",
		"traefik.rule": strings.Repeat("x", 1<<20), "weir." + strings.Repeat("y", 1<<20): "1"}
	c := fromSummary(container.Summary{Labels: labels})
	if len(c.Labels) != 3 || c.Labels["weir.weight"] != "3" || c.Project() != "shop" || len(c.Labels["weir.queues"]) > 100 || c.Oversize["weir.queues"] != 40000 || len(c.Oversize) != 1 {
		t.Errorf("%d labels: %v, %v", len(c.Labels), c.Labels, c.Oversize)
	}
	for i := range 10000 {
		labels[fmt.Sprintf("weir.a%05d", i)] = "x"
	}
	if c := fromInspection(container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{}, Config: &container.Config{Labels: labels}}); len(c.Labels) != bound.Labels+2 {
		t.Errorf("%d labels are kept", len(c.Labels))
	}
}
