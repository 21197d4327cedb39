// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"weir/internal/core/bound"
)

// TestEndlessAnswer: an engine that does not end its list, or an event, is refused, not read on.
func TestEndlessAnswer(t *testing.T) {
	const begun = `{"Labels":{"a":"`
	var sent atomic.Int64
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/json"):
			fmt.Fprint(w, "["+begun)
		case strings.HasSuffix(q.URL.Path, "/events"):
			for range 3 { // whole ones, of more than one may have together
				fmt.Fprintf(w, `{"Type":"container","Action":"start","Actor":{"ID":"a","Attributes":{"b":%q}}}`+"\n", strings.Repeat("x", bound.Engine/2))
			}
			fmt.Fprint(w, begun)
		default:
			return
		}
		for block := strings.Repeat("x", 1<<20); ; sent.Add(1 << 20) {
			if _, err := fmt.Fprint(w, block); err != nil || sent.Load() > 8*bound.Engine {
				return
			}
		}
	}))
	defer served.Close()
	e, err := NewDocker("tcp://" + served.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Running(t.Context()); err == nil || !strings.Contains(err.Error(), "16777216 are the most") {
		t.Errorf("%v", err)
	}
	events, errs := e.Events(t.Context())
	for seen := 0; ; {
		select {
		case <-events:
			seen++
			continue
		case err := <-errs:
			if seen != 3 || !strings.Contains(err.Error(), "16777216 are the most") {
				t.Errorf("%v after %d events", err, seen)
			}
		case <-time.After(30 * time.Second):
			t.Error("the events do not end")
		}
		break
	}
	if read := sent.Load(); read > 4*bound.Engine {
		t.Errorf("%d MB are read", read>>20)
	}
}

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
