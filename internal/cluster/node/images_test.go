// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// asMember asks the manager's registry as a node, past the node's agent: a hostile
// node's is whatever it likes.
func (c *cluster) asMember(n *testNode, method, path string, body string) (status int, digest string) {
	c.t.Helper()
	if !strings.HasPrefix(path, "https://") {
		path = "https://" + c.opts.Listen + path
	}
	req, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if strings.Contains(path, "/manifests/") {
		req.Header.Set("Content-Type", manifestKind)
		req.Header.Set("Accept", manifestKind)
	}
	resp, err := n.members.Manager().HTTP.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if location := resp.Header.Get("Location"); strings.Contains(location, "uploads") {
		return resp.StatusCode, location
	}
	return resp.StatusCode, resp.Header.Get("Docker-Content-Digest")
}

const manifestKind = "application/vnd.docker.distribution.manifest.v2+json"

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// pushImage pushes an image of one layer and returns what the manager says to the last step
// of it, or to the first that it refuses.
func (c *cluster) pushImage(n *testNode, tag, layer string) (status int) {
	c.t.Helper()
	const config = `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}`
	for _, blob := range []string{config, layer} {
		status, at := c.asMember(n, "POST", "/v2/weir-move/blobs/uploads/", "")
		if status != http.StatusAccepted {
			return status
		}
		if status, _ = c.asMember(n, "PUT", at+"&digest="+digestOf(blob), blob); status != http.StatusCreated {
			return status
		}
	}
	status, _ = c.asMember(n, "PUT", "/v2/weir-move/manifests/"+tag, fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":%d,"digest":%q}]}`, manifestKind, len(config), digestOf(config), len(layer), digestOf(layer)))
	return status
}

// TestAMemberCannotTouchTheImageOfAMove: while a moves a container to b, between a's push
// and b's pull, the member c overwrites, deletes and reads the image that travels. It can
// do none of it, and when the move is over neither can a and b.
func TestAMemberCannotTouchTheImageOfAMove(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	nodes := map[string]*testNode{}
	for _, name := range []string{"a", "b", "c"} {
		o := c.options(name)
		o.Registry = "127.0.0.1:0"
		nodes[name] = c.run(o, newAgent(c.world, name, 100e6))
	}
	a, b, other := nodes["a"], nodes["b"], nodes["c"]
	c.world.put("a", "web")
	c.up(3)
	c.seen(1)
	gate := make(chan struct{})
	c.world.mu.Lock()
	c.world.slow[move.Pull] = gate
	c.world.mu.Unlock()
	mv, err := c.manager.Migrate(t.Context(), api.MoveRequest{Container: "web", To: "b", Approach: "commit"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		now, err := c.manager.Move(t.Context(), mv.ID)
		return err == nil && now.State == "running"
	}) {
		t.Fatalf("the move does not begin\n%s", c.log)
	}
	if status := c.pushImage(a, mv.ID, "layer"); status != http.StatusCreated {
		t.Fatalf("the source's push: %d", status)
	}
	path := "/v2/weir-move/manifests/" + mv.ID
	status, want := c.asMember(b, "GET", path, "")
	if status != http.StatusOK {
		t.Fatalf("the target's pull: %d", status)
	}
	if status := c.pushImage(other, mv.ID, "evil"); status != http.StatusForbidden {
		t.Errorf("c's push over it: %d, want 403", status)
	}
	if status := c.pushImage(b, mv.ID, "evil"); status != http.StatusForbidden {
		t.Errorf("the target's push over it: %d, want 403", status)
	}
	for _, n := range []*testNode{other, b, a} {
		if status, _ := c.asMember(n, "DELETE", "/v2/weir-move/manifests/"+want, ""); status != http.StatusForbidden {
			t.Errorf("%s deletes it: %d, want 403", n.Name(), status)
		}
		if status, _ := c.asMember(n, "DELETE", "/v2/weir-move/blobs/"+digestOf("layer"), ""); status != http.StatusForbidden {
			t.Errorf("%s deletes its layer: %d, want 403", n.Name(), status)
		}
	}
	for _, what := range []string{path, "/v2/weir-move/manifests/" + want, "/v2/weir-move/blobs/" + digestOf("layer"), "/v2/_catalog", "/v2/weir-move/tags/list"} {
		if status, _ := c.asMember(other, "GET", what, ""); status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("c reads %s: %d", what, status)
		}
	}
	if status, got := c.asMember(b, "GET", path, ""); status != http.StatusOK || got != want {
		t.Errorf("what b pulls was %s and is %s (%d)", want, got, status)
	}
	close(gate)
	if mv = c.ended(mv.ID); mv.State != "done" {
		t.Fatalf("%+v", mv)
	}
	if status := c.pushImage(a, mv.ID, "later"); status != http.StatusForbidden {
		t.Errorf("the source's push after the end: %d, want 403", status)
	}
	if status, _ := c.asMember(b, "GET", path, ""); status != http.StatusForbidden {
		t.Errorf("the target's pull after the end: %d, want 403", status)
	}
}
