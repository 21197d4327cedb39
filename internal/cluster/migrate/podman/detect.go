// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/base/dockerapi"
)

// answerTimeout bounds how long an engine may take to say which it is.
const answerTimeout = 3 * time.Second

// Serves reports whether what listens at a socket is Podman, which speaks Docker's API
// as well. One that does not answer (yet) is judged by the socket's name, such as
// /run/podman/podman.sock.
func Serves(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	c, err := dockerapi.New("unix://" + socket)
	if err != nil {
		return false
	}
	defer c.Close()
	v, err := c.ServerVersion(ctx)
	if err != nil {
		return strings.Contains(filepath.Base(socket), "podman")
	}
	for _, part := range v.Components {
		if strings.HasPrefix(part.Name, "Podman") {
			return true
		}
	}
	return false
}
