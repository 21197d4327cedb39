// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
)

// An engine gives a container the labels of its image, beside those that it is started
// with, and does not tell them apart. So Docker asks for the image, once: its id
// is a digest of its content. A label that the image has with the same value is the
// image's.

// imageLabels remembers the labels of images that matter here, by the image's id.
type imageLabels struct {
	mu    sync.Mutex
	known map[string]map[string]string
}

// mostImages are remembered; then it begins anew.
const mostImages = 1024

// matters reports whether a label is read here.
func matters(label string) bool {
	return strings.HasPrefix(label, "weir.") || label == ComposeProject
}

// bake notes which labels of a container come with its image. Containers without
// labels that matter cost nothing. Of an image that is gone, all may have been its.
func (e *Docker) bake(ctx context.Context, c *Container, image string) error {
	own := maps.Clone(c.Labels)
	if len(own) == 0 {
		return nil
	}
	baked, err := e.labelsOf(ctx, image)
	switch {
	case errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err):
		baked = own
	case err != nil:
		return err
	}
	for label, value := range own {
		if inImage, has := baked[label]; !has || inImage != value {
			delete(own, label)
		}
	}
	c.Baked = own
	return nil
}

// labelsOf asks the engine for the labels of an image, or remembers them.
func (e *Docker) labelsOf(ctx context.Context, image string) (map[string]string, error) {
	e.images.mu.Lock()
	labels, known := e.images.known[image]
	e.images.mu.Unlock()
	if known {
		return labels, nil
	}
	answer, err := e.client.ImageInspect(ctx, image)
	if err != nil {
		return nil, err
	}
	labels = map[string]string{}
	if answer.Config != nil {
		labels, _ = bounded(answer.Config.Labels)
	}
	e.images.mu.Lock()
	defer e.images.mu.Unlock()
	if len(e.images.known) >= mostImages || e.images.known == nil {
		e.images.known = map[string]map[string]string{}
	}
	e.images.known[image] = labels
	return labels, nil
}
