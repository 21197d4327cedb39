// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"weir/internal/cluster/migrate/pack"
)

const (
	manifestFile  = "manifest.json"
	manifestBytes = 1 << 20
	configBytes   = 4 << 20 // the engine reads it into its memory
	mostLayers    = 128     // an overlay of Docker's has at most 125
)

// archived is an entry of an archive's manifest.json, as far as it is passed on.
type archived struct {
	Config string
	Layers []string
}

// survey has the findings about an image's archive before the engine gets it.
type survey struct {
	archived
	archive int64 // bytes of the entries that are passed on
	layers  int64 // bytes that the engine makes of it
	links   map[string]string
	sizes   map[string]made // of the layers, by their names in the archive
	config  string          // SHA-256 of the configuration, "" until it is found
}

// made says how much an engine makes of a layer.
type made struct{ bytes, files int64 }

// surveyed reads an archive, which must be about one image, this one, and of which the
// engine may make no more than the limits say.
func surveyed(f io.ReadSeeker, id string, limits pack.Limits) (survey, error) {
	s := survey{links: map[string]string{}, sizes: map[string]made{}}
	var err error
	if s.archived, err = onlyImage(f, id); err != nil {
		return s, err
	}
	if err := entries(f, func(h *tar.Header, content io.Reader) error { return s.add(h, content, limits) }); err != nil {
		return s, refusedBy(err)
	}
	return s, s.whole(id, limits)
}

// refusedBy turns the fault of an archive into a definite answer.
func refusedBy(err error) error { return refused("%s", oneLine(err.Error())) }

// needs says whether the engine gets an entry.
func (s *survey) needs(h *tar.Header) bool {
	name := path.Clean(h.Name)
	_, isLayer := s.sizes[name]
	return name == s.Config || isLayer || s.links[name] != ""
}

// add takes an entry into account.
func (s *survey) add(h *tar.Header, content io.Reader, limits pack.Limits) error {
	name := path.Clean(h.Name)
	isLayer := false
	for _, layer := range s.Layers {
		isLayer = isLayer || layer == name
	}
	if name != s.Config && !isLayer {
		return nil
	}
	if s.needs(h) && (name != s.Config || s.config != "") {
		return errors.New("entry " + name + " comes twice")
	}
	switch {
	case name == s.Config && h.Typeflag == tar.TypeReg && h.Size <= configBytes:
		s.archive += h.Size
		hash := sha256.New()
		_, err := io.Copy(hash, content)
		s.config = hex.EncodeToString(hash.Sum(nil))
		return err
	case isLayer && h.Typeflag == tar.TypeSymlink: // layers that are the same are links
		s.links[name] = path.Join(path.Dir(name), h.Linkname)
		return nil
	case isLayer && h.Typeflag == tar.TypeReg:
		contents := pack.Contents{Limits: limits}
		if err := contents.Count(content); err != nil {
			return err
		}
		m := made{}
		m.bytes, m.files = contents.Made()
		s.sizes[name] = m
		s.archive += h.Size
		return nil
	}
	return errors.New("entry " + name + " is neither a layer nor a configuration of at most 4 MiB")
}

// whole says why something is missing, or all layers together are too large. One that is
// named twice is made twice.
func (s *survey) whole(id string, limits pack.Limits) error {
	if "sha256:"+s.config != id {
		return refused("the archive holds image sha256:%s under the name of %s, which was ordered", s.config, id)
	}
	sum := made{}
	for _, name := range s.Layers {
		if to, ok := s.links[name]; ok {
			name = to
		}
		m, ok := s.sizes[name]
		if !ok {
			return refused("the archive of image %s has no layer %.100q", id, name)
		}
		sum.bytes, sum.files = sum.bytes+m.bytes, sum.files+m.files
	}
	if sum.bytes > limits.Bytes || sum.files > limits.Entries {
		return refused("%v: image %s unpacks to %d bytes in %d files, taken are %d in %d", pack.ErrTooLarge, id, sum.bytes, sum.files, limits.Bytes, limits.Entries)
	}
	s.layers = sum.bytes
	return nil
}

// onlyImage reads the manifest of an archive, which must be about one image, this one.
func onlyImage(f io.ReadSeeker, id string) (found archived, err error) {
	err = entries(f, func(h *tar.Header, content io.Reader) error {
		if path.Clean(h.Name) != manifestFile || h.Typeflag != tar.TypeReg || found.Config != "" {
			return nil
		}
		var list []archived
		if err := json.NewDecoder(io.LimitReader(content, manifestBytes)).Decode(&list); err != nil {
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
func (a archived) check(id string) error {
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
