// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"regexp"
	"sync"
	"time"

	"weir/internal/core/bound"
	"weir/internal/host/discover/localhttp"
)

// The containers of a pod of Podman have the network of one of them, which Podman makes for that
// and gives the pod's labels. It is called after the pod's id, which tells people nothing, so here
// it is called like the pod. Docker's API knows no pods; Podman answers its own at the same socket.

// infraName matches what Podman calls that container if not told otherwise.
var infraName = regexp.MustCompile(`^([0-9a-f]{12})-infra$`)

// podNames remembers the names of pods, by the first digits of their ids. "" = there is no such
// pod.
type podNames struct {
	mu    sync.Mutex
	known map[string]string
}

const (
	mostPods    = 1024            // are remembered; then it begins anew
	podPatience = 2 * time.Second // for one answer
)

// asPod calls the container that has a pod's network like the pod. Where Podman does not say what
// that is called, it keeps its name.
func (e *Docker) asPod(ctx context.Context, c *Container) {
	part := infraName.FindStringSubmatch(c.Name)
	if part == nil {
		return
	}
	id := part[1]
	e.pods.mu.Lock()
	name, known := e.pods.known[id]
	e.pods.mu.Unlock()
	if !known {
		var err error
		if name, err = e.podName(ctx, id); err != nil {
			return // it is asked again with the next look at the container
		}
		e.pods.mu.Lock()
		if e.pods.known == nil || len(e.pods.known) >= mostPods {
			e.pods.known = map[string]string{}
		}
		e.pods.known[id] = name
		e.pods.mu.Unlock()
	}
	if name != "" {
		c.Name = bound.Shown(name)
	}
}

// podName asks Podman for a pod's name, "" if the engine has no such pod, or no pods.
func (e *Docker) podName(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	var pod struct{ Name string }
	_, err := localhttp.Get(ctx, e.client.Dialer(), "/v4.0.0/libpod/pods/"+id+"/json", &pod)
	return pod.Name, err
}
