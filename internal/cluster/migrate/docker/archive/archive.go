// SPDX-License-Identifier: Apache-2.0

// Package archive judges the archive of an image before a Docker engine gets it.
//
// An archive of an image, as "docker save" makes it, is a list of images with names for
// each. "docker load" would give a name such as nginx:latest, which means another image
// here, to what a hostile node has sent; and it unpacks whatever the archive holds. So
// Survey reads the archive once and refuses it unless
//
//   - it is about one image, the ordered one: the hash of its configuration is the
//     image's id;
//   - its entries have the names that engines give, each once;
//   - all its layers are there, unpacked, and the engine makes no more of them than the
//     limits say. A layer that is named twice counts twice.
//
// Then Image.Write passes on the configuration and the layers, and nothing that gives
// names to images.
//
//	image, err := archive.Survey(f, "sha256:ab12...", pack.StreamBounds{Bytes: 1 << 30, Entries: 1e6})
//	if err != nil { ... }           // a definite answer, one line
//	err = image.Write(f, engine)    // f is read once more
//
// What it does not do: compare layers with the hashes in the configuration (the engine
// does), or read the packed stream in which an archive travels (package pack).
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/move"
	"weir/internal/core/bound"
)

const (
	manifestFile  = "manifest.json"
	manifestBytes = bound.Message
	configBytes   = 4 << 20 // the engine reads it into its memory
	mostLayers    = 128     // an overlay of Docker's has at most 125
	mostValues    = 8 << 10 // of a manifest: one image's names and layers, and what later engines write beside them
)

// entry is an entry of an archive's manifest.json, as far as it is passed on.
type entry struct {
	Config string
	Layers []string
}

// Image is the one image of an archive that Survey has found to be in order.
type Image struct {
	ArchiveBytes int64 // of the entries that Write passes on
	LayerBytes   int64 // that an engine makes of the layers

	entry  entry
	links  map[string]string
	sizes  map[string]made // of the layers, by their names in the archive
	config string          // SHA-256 of the configuration, "" until it is found
}

// made says how much an engine makes of a layer.
type made struct{ bytes, files int64 }

// Survey reads an archive, which must be about one image, that with this id, and of which
// the engine may make no more than the limits say. A fault of the archive is a
// move.Error that refuses it.
func Survey(f io.ReadSeeker, id string, limits pack.StreamBounds) (Image, error) {
	im := Image{links: map[string]string{}, sizes: map[string]made{}}
	var err error
	if im.entry, err = onlyImage(f, id); err != nil {
		return im, err
	}
	if err := entries(f, func(h *tar.Header, content io.Reader) error { return im.add(h, content, limits) }); err != nil {
		return im, refusedBy(err)
	}
	return im, im.whole(id, limits)
}

func refused(format string, args ...any) error {
	return &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf(format, args...)}
}

// refusedBy turns the fault of an archive into a definite answer, on one line.
func refusedBy(err error) error { return refused("%s", strings.Join(strings.Fields(err.Error()), " ")) }

// needs says whether the engine gets an entry.
func (im *Image) needs(h *tar.Header) bool {
	name := path.Clean(h.Name)
	_, isLayer := im.sizes[name]
	return name == im.entry.Config || isLayer || im.links[name] != ""
}

// add takes an entry into account.
func (im *Image) add(h *tar.Header, content io.Reader, limits pack.StreamBounds) error {
	name := path.Clean(h.Name)
	isLayer := false
	for _, layer := range im.entry.Layers {
		isLayer = isLayer || layer == name
	}
	if name != im.entry.Config && !isLayer {
		return nil
	}
	if im.needs(h) && (name != im.entry.Config || im.config != "") {
		return errors.New("entry " + name + " comes twice")
	}
	switch {
	case name == im.entry.Config && h.Typeflag == tar.TypeReg && h.Size <= configBytes:
		im.ArchiveBytes += h.Size
		hash := sha256.New()
		_, err := io.Copy(hash, content)
		im.config = hex.EncodeToString(hash.Sum(nil))
		return err
	case isLayer && h.Typeflag == tar.TypeSymlink: // layers that are the same are links
		im.links[name] = path.Join(path.Dir(name), h.Linkname)
		return nil
	case isLayer && h.Typeflag == tar.TypeReg:
		contents := pack.Contents{Limits: limits}
		if err := contents.Count(content); err != nil {
			return err
		}
		m := made{}
		m.bytes, m.files = contents.Made()
		im.sizes[name] = m
		im.ArchiveBytes += h.Size
		return nil
	}
	return errors.New("entry " + name + " is neither a layer nor a configuration of at most 4 MiB")
}

// whole says why something is missing, or all layers together are too large. One that is
// named twice is made twice.
func (im *Image) whole(id string, limits pack.StreamBounds) error {
	if "sha256:"+im.config != id {
		return refused("the archive holds image sha256:%s under the name of %s, which was ordered", im.config, id)
	}
	sum := made{}
	for _, name := range im.entry.Layers {
		if to, ok := im.links[name]; ok {
			name = to
		}
		m, ok := im.sizes[name]
		if !ok {
			return refused("the archive of image %s has no layer %.100q", id, name)
		}
		sum.bytes, sum.files = sum.bytes+m.bytes, sum.files+m.files
	}
	if sum.bytes > limits.Bytes || sum.files > limits.Entries {
		return refused("%v: image %s unpacks to %d bytes in %d files, taken are %d in %d", pack.ErrTooLarge, id, sum.bytes, sum.files, limits.Bytes, limits.Entries)
	}
	im.LayerBytes = sum.bytes
	return nil
}

// onlyImage reads the manifest of an archive, which must be about one image, this one.
func onlyImage(f io.ReadSeeker, id string) (found entry, err error) {
	err = entries(f, func(h *tar.Header, content io.Reader) error {
		if path.Clean(h.Name) != manifestFile || h.Typeflag != tar.TypeReg || found.Config != "" {
			return nil
		}
		var list []entry
		text, err := io.ReadAll(io.LimitReader(content, manifestBytes))
		if err == nil {
			err = bound.Lists("", text, mostValues, mostValues)
		}
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err != nil {
			return refused("the archive of image %s: %s: %v", id, manifestFile, err)
		}
		if len(list) != 1 {
			return refused("the archive holds %d images; one was ordered, %s", len(list), id)
		}
		found = list[0]
		return found.check(id)
	})
	switch {
	case err != nil:
		return found, err
	case found.Config == "":
		return found, refused("the archive of image %s has no %s", id, manifestFile)
	}
	return found, nil
}

// check refuses names in an archive that are not those that engines give: they are looked
// up later, and links could lead them elsewhere.
func (a entry) check(id string) error {
	_, hash, _ := strings.Cut(id, ":")
	if a.Config != hash+".json" && a.Config != "blobs/sha256/"+hash {
		return refused("the archive holds image %.80q; %s was ordered", a.Config, id)
	}
	if len(a.Layers) > mostLayers {
		return refused("the archive of image %s has %d layers, at most %d are taken", id, len(a.Layers), mostLayers)
	}
	for _, name := range a.Layers {
		if name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") || name == a.Config {
			return refused("the archive of image %s has a layer %.100q; engines call none so", id, name)
		}
	}
	return nil
}

// Write copies the image's configuration and its layers from the archive that was
// surveyed into a new one, without names for the image.
func (im *Image) Write(f io.ReadSeeker, w io.Writer) error {
	out := tar.NewWriter(w)
	err := entries(f, func(h *tar.Header, content io.Reader) error {
		if !im.needs(h) {
			return nil
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	})
	if err != nil {
		return err
	}
	text, err := json.Marshal([]entry{im.entry})
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestFile, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.Close()
}

// entries visits the entries of an archive.
func entries(f io.ReadSeeker, visit func(h *tar.Header, content io.Reader) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(h, t)
		}
		if err != nil {
			return fmt.Errorf("the image's archive: %w", err)
		}
	}
}
