// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"strings"
	"testing"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/test/dockertest"
)

// described returns a container that an engine has created, as a source describes it;
// it is removed, so that the same engine can be the target.
func described(t *testing.T, e *Engine, c container.Config, h container.HostConfig, n *network.NetworkingConfig) migrate.Container {
	t.Helper()
	c.Image, c.Cmd, c.StopSignal = dockertest.Image, []string{"sleep", "1000"}, "SIGKILL"
	made, err := e.client.ContainerCreate(t.Context(), &c, &h, n, nil, "web")
	if err != nil {
		t.Fatal(err)
	}
	found, err := e.Describe(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.client.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestPreflightSaysNothingOfOthers: a hostile source asks for names, addresses and ports
// that containers here have, and is not told whose they are.
func TestPreflightSaysNothingOfOthers(t *testing.T) {
	e, daemon := guarded(t)
	ctx := t.Context()
	e.Guard(accept.Rules{Networks: []string{"tenant"}})
	if _, err := daemon.Create(ctx, dockertest.Container{Name: "makes-the-image"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.NetworkCreate(ctx, "tenant", network.CreateOptions{IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.9.0.0/24"}}}}); err != nil {
		t.Fatal(err)
	}
	in := func(aliases []string, ip string) *network.NetworkingConfig {
		return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"tenant": {Aliases: aliases, IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: ip}}}}
	}
	ports := nat.PortMap{"80/tcp": {{HostIP: "127.0.0.1", HostPort: "8081"}}}
	made, err := e.client.ContainerCreate(ctx, &container.Config{Image: dockertest.Image, Cmd: []string{"sleep", "1000"}, StopSignal: "SIGKILL", ExposedPorts: nat.PortSet{"80/tcp": {}}},
		&container.HostConfig{NetworkMode: "tenant", PortBindings: ports}, in([]string{"database"}, "10.9.0.10"), nil, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.client.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	own := container.HostConfig{NetworkMode: "tenant"}
	for name, c := range map[string]struct {
		host container.HostConfig
		net  *network.NetworkingConfig
		code string // "" = nothing is lacking
	}{
		"its own name and address": {own, in([]string{"web", "shop"}, "10.9.0.20"), ""},
		"another's alias":          {own, in([]string{"database"}, ""), "not-accepted"},
		"another's name":           {own, in([]string{"shop", "secret"}, ""), "not-accepted"},
		"another's address":        {own, in(nil, "10.9.0.10"), "not-accepted"},
		"another's port":           {container.HostConfig{PortBindings: ports}, nil, "port-taken"},
	} {
		t.Run(name, func(t *testing.T) {
			web := described(t, e, container.Config{}, c.host, c.net)
			o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: web}
			list, err := e.Lacking(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) > 1 || (c.code == "") != (len(list) == 0) || c.code != "" && list[0].Code != c.code {
				t.Errorf("%v, want %q", list, c.code)
			}
			for _, f := range list {
				if f.Remedy == "" || strings.Contains(f.String(), "by secret") || strings.Contains(f.String(), "stop secret") {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// localRegistry is one on the loopback of an engine, as the agent offers it.
func localRegistry(t *testing.T, daemon *dockertest.Engine) string {
	t.Helper()
	images, err := registry.Open(t.TempDir(), registry.Quota{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { images.Close() })
	return serveInside(t, daemon, images)
}

// TestTheTargetTakesTheOrderedImage: another member has given the name of a move's image
// to another image, in the registry or here. The engine is a real one.
func TestTheTargetTakesTheOrderedImage(t *testing.T) {
	e, daemon := guarded(t)
	ctx := t.Context()
	if _, err := daemon.Create(ctx, dockertest.Container{Name: "makes-the-image"}); err != nil {
		t.Fatal(err)
	}
	web := described(t, e, container.Config{}, container.HostConfig{}, nil)
	o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachCommit, Registry: localRegistry(t, daemon), Container: web}
	// commit makes an image of a container with another command, pushes it, and has it away.
	commit := func(command string) migrate.Committed {
		t.Helper()
		id, err := daemon.Create(ctx, dockertest.Container{Name: "source", Command: []string{"sleep", command}})
		if err != nil {
			t.Fatal(err)
		}
		defer daemon.Remove(context.WithoutCancel(ctx), "source")
		at := o
		at.Container.ID = id
		made, err := e.Do(ctx, move.Commit, at)
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := e.Do(ctx, move.Push, at)
		if err != nil {
			t.Fatal(err)
		}
		e.removeImage(ctx, committed(o))
		return migrate.Committed{ImageID: made.ImageID, Digest: pushed.Digest}
	}
	ordered := commit("1001")
	another := commit("1002") // has the name in the registry by now
	before := stateOf(t, e)
	discard := func() {
		t.Helper()
		if _, err := e.Do(ctx, move.Discard, o); err != nil {
			t.Error(err)
		}
		if after := stateOf(t, e); after != before {
			t.Errorf("the engine had\n%s\nand has\n%s", before, after)
		}
	}
	imageOf := func() string {
		t.Helper()
		id, _, err := e.Copy(ctx, o.Move)
		if err != nil || id == "" {
			t.Fatalf("there is no copy: %v", err)
		}
		r, err := e.client.ContainerInspect(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.Image
	}

	t.Run("the tag points elsewhere", func(t *testing.T) {
		o.Committed = &ordered
		if _, err := e.Do(ctx, move.Pull, o); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Do(ctx, move.Create, o); err != nil {
			t.Fatal(err)
		}
		if image := imageOf(); image != ordered.ImageID {
			t.Errorf("the copy is of %s, ordered was %s", image, ordered.ImageID)
		}
		discard()
	})
	t.Run("the digest is another image's", func(t *testing.T) {
		o.Committed = &migrate.Committed{ImageID: ordered.ImageID, Digest: another.Digest}
		if _, err := e.Do(ctx, move.Pull, o); err == nil || !strings.Contains(err.Error(), another.ImageID) {
			t.Errorf("pulled: %v", err)
		}
		discard()
	})
	t.Run("the name changes hands here", func(t *testing.T) {
		o.Committed = &ordered
		if _, err := e.Do(ctx, move.Pull, o); err != nil {
			t.Fatal(err)
		}
		if err := e.client.ImageTag(ctx, dockertest.Image, committed(o)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Do(ctx, move.Create, o); err == nil || !strings.Contains(err.Error(), "ordered was "+ordered.ImageID) {
			t.Errorf("created: %v", err)
		}
		if id, _, err := e.Copy(ctx, o.Move); err != nil || id != "" {
			t.Errorf("the copy of another image is there: %s, %v", id, err)
		}
		discard()
	})
	t.Run("the copy is not as granted", func(t *testing.T) {
		o.Committed = &ordered
		if _, err := e.Do(ctx, move.Pull, o); err != nil {
			t.Fatal(err)
		}
		bad := o
		bad.Container.Config = []byte(strings.Replace(string(o.Container.Config), `"Privileged":false`, `"Privileged":true`, 1))
		if string(bad.Container.Config) == string(o.Container.Config) {
			t.Fatal("the configuration says nothing of privileges")
		}
		if _, err := e.Do(ctx, move.Create, bad); err == nil || !strings.Contains(err.Error(), "Privileged") {
			t.Errorf("created: %v", err)
		}
		discard()
	})
}
