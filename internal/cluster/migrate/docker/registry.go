// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	registrytypes "github.com/docker/docker/api/types/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/base/nsthread"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/migrate/registry/access"
)

// credentials returns the login that an engine is to show to a registry, as its API takes
// it. The engine gets it over its own socket with each push and pull, and keeps none.
func credentials(l migrate.Login) (string, error) {
	return registrytypes.EncodeAuthConfig(registrytypes.AuthConfig{Username: l.User, Password: l.Password})
}

// pushRef brings an image into the registry. Layers that are there are not sent.
func (e *Engine) pushRef(ctx context.Context, ref string, login migrate.Login) (migrate.StepOutcome, error) {
	auth, err := credentials(login)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	answer, err := e.client.ImagePush(ctx, ref, image.PushOptions{RegistryAuth: auth})
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	moved, err := drain(answer)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	return e.counted(ctx, ref, login, moved), nil
}

// pullRef brings an image here. Layers that are here are not sent.
func (e *Engine) pullRef(ctx context.Context, ref string, login migrate.Login) (migrate.StepOutcome, error) {
	moved, err := e.fetch(ctx, ref, login)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	return e.counted(ctx, ref, login, moved), nil
}

// fetch has the engine pull an image. The manager's registry holds its layers to what the
// source announced; those of another one are unpacked however large they become, so the pull
// ends when the disk has no more room than the reserve.
func (e *Engine) fetch(ctx context.Context, ref string, login migrate.Login) (moved journey, err error) {
	auth, err := credentials(login)
	if err != nil {
		return moved, err
	}
	dir, err := e.dataDir(ctx)
	if err != nil {
		return moved, err
	}
	ctx, end, err := pack.Watch(ctx, dir)
	if err != nil {
		return moved, err
	}
	defer end()
	answer, err := e.client.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
	if err == nil {
		moved, err = drain(answer)
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, pack.ErrNoRoom) {
		err = fmt.Errorf("the pull of %s has ended: %w", ref, cause)
	}
	return moved, err
}

// pullDigest brings here the image that the source has committed by the digest of its
// manifest, whatever its name means in the registry by now, and gives it that name here.
func (e *Engine) pullDigest(ctx context.Context, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	ref, want, digested := committed(o), o.Committed, digested(o)
	moved, err := e.fetch(ctx, digested, o.Login)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	found, err := e.client.ImageInspect(ctx, digested)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	if found.ID != want.ImageID {
		e.removeImage(ctx, digested)
		return migrate.StepOutcome{}, refused("%s holds image %s, and the source says that it has made %s", digested, found.ID, want.ImageID)
	}
	if err := e.client.ImageTag(ctx, found.ID, ref); err != nil {
		return migrate.StepOutcome{}, err
	}
	return e.counted(ctx, ref, o.Login, moved), nil
}

// countTimeout is how long a move, whose container may stand still, waits to be told
// how much has travelled.
const countTimeout = 500 * time.Millisecond

// counted counts the bytes of the layers that went over the network in a push or pull. The
// registry says how large they are: an engine tells in a push what they were before it packed
// them, and in a pull nothing of those that come quickly.
func (e *Engine) counted(ctx context.Context, ref string, login migrate.Login, moved journey) migrate.StepOutcome {
	if len(moved.layers) == 0 {
		return migrate.StepOutcome{Digest: moved.digest}
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n, err := e.packed(ctx, ref, login, moved.layers)
	if err != nil {
		return migrate.StepOutcome{Bytes: -1, Digest: moved.digest, Note: "bytes not known: " + oneLine(err.Error())}
	}
	return migrate.StepOutcome{Bytes: n, Digest: moved.digest}
}

// packed returns the size in bytes of layers as the registry has them.
func (e *Engine) packed(ctx context.Context, ref string, login migrate.Login, moved map[string]bool) (sum int64, err error) {
	here, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return 0, err
	}
	at, err := e.place()
	if err != nil {
		return 0, err
	}
	there, err := at.manifest(ctx, ref, login)
	if err != nil {
		return 0, err
	}
	if len(here.RootFS.Layers) != len(there.Layers) {
		return 0, fmt.Errorf("%d layers here, %d there", len(here.RootFS.Layers), len(there.Layers))
	}
	for i, layer := range there.Layers {
		// A push names a layer by the hash of its contents; a pull, or an engine with
		// containerd's store, by the hash of the packed layer.
		if moved[shortID(here.RootFS.Layers[i])] || moved[shortID(layer.Digest.String())] {
			sum += layer.Size
		}
	}
	return sum, nil
}

// shortID returns a digest as an engine's progress names it.
func shortID(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}

// manifest asks the registry for an image's, by TLS or, like the engine, without, from
// where the engine is.
func (p place) manifest(ctx context.Context, ref string, login migrate.Login) (m ocispec.Manifest, err error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return m, err
	}
	tagged, ok := named.(reference.Tagged)
	if !ok {
		return m, fmt.Errorf("%s has no tag", ref)
	}
	// No proxy: a registry that moves go through is near.
	transport := &http.Transport{DialContext: p.dial}
	defer transport.CloseIdleConnections()
	for _, scheme := range []string{"https", "http"} {
		url := fmt.Sprintf("%s://%s/v2/%s/manifests/%s", scheme, reference.Domain(named), reference.Path(named), tagged.Tag())
		var e error
		if m, e = access.GetManifest(ctx, &http.Client{Transport: transport}, url, login.User, login.Password); e == nil {
			return m, nil
		}
		err = errors.Join(err, e)
	}
	return m, err
}

// dial connects from the daemon's network namespace, which may be another one.
func (p place) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = nsthread.InPath(fmt.Sprintf("/proc/%d/ns/net", p.pid), func() (err error) {
		one := net.Dialer{FallbackDelay: -1} // two attempts at once would need two threads
		conn, err = one.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
