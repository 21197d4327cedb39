// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// engine answers at a socket what an agent asks a Docker engine, and says whatever a test wants of
// containers.
type engine struct {
	mu         sync.Mutex
	containers map[string]container // by id
	images     map[string]map[string]string
	events     []chan map[string]any
	server     *http.Server
}

// container is one as the engine describes it.
type container struct {
	id, name, image string
	pid             int
	labels          map[string]string
}

// newEngine listens at a path until the test ends.
func newEngine(t *testing.T, path string) *engine {
	t.Helper()
	e := &engine{containers: map[string]container{}, images: map[string]map[string]string{}}
	e.listen(t, path)
	return e
}

// listen has the engine answer, for the first time or again after close.
func (e *engine) listen(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.45") })
	mux.HandleFunc("GET /{version}/info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"ServerVersion":"26.1.5","Architecture":"x86_64","DockerRootDir":"/"}`))
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"Version":"26.1.5","ApiVersion":"1.45"}`))
	})
	mux.HandleFunc("GET /{version}/containers/json", e.list)
	mux.HandleFunc("GET /{version}/containers/{id}/json", e.inspect)
	mux.HandleFunc("GET /{version}/images/{id}/json", e.image)
	mux.HandleFunc("GET /{version}/networks/{name}", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"Name": r.PathValue("name"), "Driver": "bridge", "Scope": "local"})
	})
	mux.HandleFunc("GET /{version}/events", e.follow)
	e.server = &http.Server{Handler: mux}
	go func(s *http.Server) { _ = s.Serve(ln) }(e.server)
	t.Cleanup(e.close)
}

// close ends all connections, and answers no more.
func (e *engine) close() { _ = e.server.Close() }

// replace ends the containers that are not among list, and starts those that are new.
func (e *engine) replace(list ...container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.containers
	e.containers = map[string]container{}
	for _, c := range list {
		e.containers[c.id] = c
	}
	for id := range before {
		if _, stays := e.containers[id]; !stays {
			e.tell(id, "die", "destroy")
		}
	}
	for _, c := range list {
		if _, was := before[c.id]; !was {
			e.tell(c.id, "start")
		}
	}
}

// tell sends events to all that follow.
func (e *engine) tell(id string, actions ...string) {
	for _, action := range actions {
		for _, to := range e.events {
			to <- map[string]any{"Type": "container", "Action": action, "Actor": map[string]any{"ID": id}}
		}
	}
}

func (e *engine) list(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	list := slices.Collect(maps.Values(e.containers))
	e.mu.Unlock()
	var only struct{ ID map[string]bool }
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &only)
	answer := []map[string]any{}
	for _, c := range list {
		if len(only.ID) == 0 || only.ID[c.id] {
			answer = append(answer, map[string]any{"Id": c.id, "Names": []string{"/" + c.name}, "Labels": c.labels, "State": "running", "ImageID": c.image,
				"HostConfig": map[string]any{"NetworkMode": "bridge"}, "NetworkSettings": oneNetwork})
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

var oneNetwork = map[string]any{"Networks": map[string]any{"bridge": map[string]any{}}}

func (e *engine) inspect(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	c, has := e.containers[r.PathValue("id")]
	e.mu.Unlock()
	if !has {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"no such container"}`))
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"Id": c.id, "Name": "/" + c.name, "Image": c.image, "State": map[string]any{"Running": true, "Pid": c.pid},
		"Config": map[string]any{"Labels": c.labels}, "HostConfig": map[string]any{"NetworkMode": "bridge"}, "NetworkSettings": oneNetwork})
}

func (e *engine) image(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"Id": r.PathValue("id"), "Config": map[string]any{"Labels": e.images[r.PathValue("id")]}})
}

func (e *engine) follow(w http.ResponseWriter, r *http.Request) {
	news := make(chan map[string]any, 10_000)
	e.mu.Lock()
	e.events = append(e.events, news)
	e.mu.Unlock()
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-news:
			_ = json.NewEncoder(w).Encode(event)
			_ = flush.Flush()
		}
	}
}
