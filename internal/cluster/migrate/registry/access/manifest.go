// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/core/bound"
)

// MaxValues bounds the values of a manifest, and MaxReferences those in one list of it: layers, or
// manifests of an index. An engine has 128 layers at most, and an index some dozen platforms.
const (
	MaxValues     = 8 << 10
	MaxReferences = 512
)

// mediaTypes are the manifests of one image.
var mediaTypes = []string{ocispec.MediaTypeImageManifest, "application/vnd.docker.distribution.manifest.v2+json"}

// GetManifest gets an image's manifest from a registry.
func GetManifest(ctx context.Context, client *http.Client, url, user, password string) (m ocispec.Manifest, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return m, err
	}
	req.Header["Accept"] = mediaTypes
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := client.Do(req)
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return m, fmt.Errorf("%s: %s", url, resp.Status)
	}
	text, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, bound.Manifest))
	if err != nil {
		return m, err
	}
	if err := bound.Lists("manifest", text, MaxValues, MaxReferences); err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}
