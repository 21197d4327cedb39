// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Image is the image that containers are made from unless they name another:
// the programs in DefaultPrograms.
const Image = "weir-test:latest"

// DefaultPrograms are the programs in Image, as far as the host has them.
var DefaultPrograms = []string{"sh", "sleep", "ip", "ping", "unshare"}

// Import makes an image of programs of the host, found in PATH, and the
// libraries they need, e.g. Import(ctx, "traffic:1", "sh", "sleep", "iperf3").
func (e *Engine) Import(ctx context.Context, ref string, programs ...string) error {
	return Import(ctx, e.client, ref, programs...)
}

// Import does for any engine what Engine.Import does.
func Import(ctx context.Context, engine *client.Client, ref string, programs ...string) error {
	archive, err := rootfs(programs)
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	answer, err := engine.ImageImport(ctx, image.ImportSource{Source: archive, SourceName: "-"}, ref,
		image.ImportOptions{Changes: []string{"ENV PATH=/bin"}})
	if err != nil {
		return fmt.Errorf("image %s: %w", ref, err)
	}
	defer answer.Close()
	_, err = io.Copy(io.Discard, answer) // the import is done when the answer ends
	return err
}

// ensureImage imports Image once.
func (e *Engine) ensureImage(ctx context.Context) error {
	if e.imageDone {
		return nil
	}
	var programs []string
	for _, p := range DefaultPrograms {
		if _, err := exec.LookPath(p); err == nil {
			programs = append(programs, p)
		}
	}
	err := e.Import(ctx, Image, programs...)
	e.imageDone = err == nil
	return err
}

// rootfs returns a tar archive of /bin with the programs, their libraries at the paths
// where the loader looks for them, and a /tmp.
func rootfs(programs []string) (io.Reader, error) {
	files := map[string]string{} // path in the image -> file on the host
	for _, program := range programs {
		found, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		files["/bin/"+filepath.Base(program)] = found
		libraries, err := libraries(found)
		if err != nil {
			return nil, err
		}
		for _, library := range libraries {
			files[library] = library
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: 0o755, Size: int64(len(content))}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	return &archive, w.Close()
}

// libraries lists the absolute paths of the shared libraries and the loader of
// a program, none if it is static.
func libraries(program string) ([]string, error) {
	output, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		if strings.Contains(string(output), "not a dynamic executable") {
			return nil, nil
		}
		return nil, fmt.Errorf("ldd %s: %w: %s", program, err, output)
	}
	return parseLdd(string(output)), nil
}

// parseLdd reads lines such as "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6
// (0x...)" and "/lib64/ld-linux-x86-64.so.2 (0x...)".
func parseLdd(output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		for _, field := range strings.Fields(line) {
			if path.IsAbs(field) {
				found = append(found, field)
			}
		}
	}
	return found
}
