// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/stdcopy"

	"weir/internal/cluster/clustertest/counter"
)

// CounterImage is the image with the counter.
const CounterImage = "weir-counter:1"

// ImportCounter makes an image on a node, of the program in a file: a static one that
// runs counter.Main, with ballast MiB of random data beside it.
func (n *Node) ImportCounter(ctx context.Context, ref, program string, ballast int, entrypoint string) error {
	return n.importCounter(ctx, ref, program, entrypoint, func(t *tar.Writer) error { return writeBallast(t, ballast) })
}

// ImportCounterInto makes an image of a file system, which is in a tar archive, and the
// counter.
func (n *Node) ImportCounterInto(ctx context.Context, ref, program, archive, entrypoint string) error {
	return n.importCounter(ctx, ref, program, entrypoint, func(t *tar.Writer) error { return copyArchive(t, archive) })
}

func (n *Node) importCounter(ctx context.Context, ref, program, entrypoint string, rest func(*tar.Writer) error) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeRoot(w, text, rest)) }()
	answer, err := n.Docker().ImageImport(ctx, image.ImportSource{Source: r, SourceName: "-"}, ref,
		image.ImportOptions{Changes: []string{"ENV GODEBUG=multipathtcp=0", "ENTRYPOINT " + entrypoint}})
	if err != nil {
		return fmt.Errorf("import the counter: %w", err)
	}
	_, err = io.Copy(io.Discard, answer)
	return errors.Join(err, answer.Close())
}

// What writeRoot brings into an image.
const (
	stateDir    = "state"
	tempDir     = "tmp"
	counterFile = "counter"
)

// writeRoot writes the image's file system: the rest, and the counter over it.
func writeRoot(w io.Writer, program []byte, rest func(*tar.Writer) error) error {
	t := tar.NewWriter(w)
	if err := rest(t); err != nil {
		return err
	}
	for _, dir := range []string{stateDir, tempDir} {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: counterFile, Mode: 0o755, Size: int64(len(program))}); err != nil {
		return err
	}
	if _, err := t.Write(program); err != nil {
		return err
	}
	return t.Close()
}

func writeBallast(t *tar.Writer, mib int) error {
	if mib == 0 {
		return nil
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "ballast", Mode: 0o644, Size: int64(mib) << 20}); err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for i := range mib {
		counter.Fill(block, uint64(i)+1<<40)
		if _, err := t.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// copyArchive copies what writeRoot does not bring itself: an engine refuses a path that
// comes twice.
func copyArchive(t *tar.Writer, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	for from := tar.NewReader(f); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && slices.Contains([]string{stateDir, tempDir, counterFile}, path.Clean(h.Name)) {
			continue
		}
		if err == nil {
			err = t.WriteHeader(h)
		}
		if err == nil {
			_, err = io.Copy(t, from)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
	}
}

// CopyImage brings an image from one node to another as it is, so that both have the
// same (two imports make two).
func CopyImage(ctx context.Context, from, to *Node, ref string) error {
	archive, err := from.Docker().ImageSave(ctx, []string{ref})
	if err != nil {
		return err
	}
	defer archive.Close()
	answer, err := to.Docker().ImageLoad(ctx, archive)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// Count reads the file of a counter that runs on the node or has ended there.
func (n *Node) Count(ctx context.Context, name string) (counter.Count, error) {
	archive, _, err := n.Docker().CopyFromContainer(ctx, name, counter.File)
	if err != nil {
		return counter.Count{}, err
	}
	defer archive.Close()
	t := tar.NewReader(archive)
	if _, err := t.Next(); err != nil {
		return counter.Count{}, err
	}
	text, err := io.ReadAll(t)
	if err != nil {
		return counter.Count{}, err
	}
	// A line may be half written.
	return counter.Check(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
}

// Said returns the end of what a container has printed.
func (n *Node) Said(ctx context.Context, name string) string {
	r, err := n.Docker().ContainerLogs(ctx, name, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "5"})
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, r); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out.String())
}

// Running lists the names of the containers that run on the node.
func (n *Node) Running(ctx context.Context) (names []string, err error) {
	if n.machine != nil && n.machine.Off() {
		return nil, nil
	}
	list, err := n.Docker().ContainerList(ctx, container.ListOptions{})
	for _, c := range list {
		names = append(names, c.Names[0][1:])
	}
	return names, err
}
