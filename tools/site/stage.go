// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// pages are those that have another place in the site than in docs: where they are, by their path
// in the repository.
var pages = map[string]string{
	"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "SECURITY.md": "SECURITY.md",
	"deploy/README.md": "deploy/README.md", "vm/README.md": "vm/README.md", "docs/README.md": "map.md",
}

// link is an inline link or picture of Markdown, with its target.
var link = regexp.MustCompile(`(\]\()([^)\s]+)(\))`)

// trialMark is where a page has the link to play with, which a forge cannot show. scripts/site
// makes what the frame shows.
const (
	trialMark  = "<!-- trial -->"
	trialFrame = `<iframe class="trial" src="trial/index.html" title="A link to play with"></iframe>`
)

// tree is a repository that becomes a site.
type tree struct {
	repository fs.FS
	placed     map[string]bool // by path in the repository
	to         string          // folder
}

// stage copies the pages of the repository at root into the folder to, which it empties.
func stage(root, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	t := &tree{repository: os.DirFS(root), placed: map[string]bool{}, to: to}
	err := fs.WalkDir(t.repository, "docs", func(source string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(source, "docs/papers/data/") {
			return err // data is copied where a page links to it
		}
		return t.place(source)
	})
	for source := range pages {
		if err == nil {
			err = t.place(source)
		}
	}
	if err != nil {
		return err
	}
	own := os.DirFS(filepath.Join(root, "tools/site"))
	settings, err := fs.ReadFile(own, "mkdocs.yml")
	if err != nil {
		return err
	}
	settings, err = t.expandNav(settings)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, "mkdocs.yml"), settings, 0o644); err != nil {
		return err
	}
	assets, err := fs.Sub(own, "assets")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(to, "pages", "assets"), assets)
}

// sitePath returns where a file or a folder of the repository is in the site.
func (t *tree) sitePath(source string) string {
	if there, ok := pages[source]; ok {
		return there
	}
	there := strings.TrimPrefix(source, "docs/")
	if !t.isFolder(source) {
		return there
	}
	if _, err := fs.Stat(t.repository, source+"/README.md"); err == nil {
		return there + "/README.md"
	}
	return there + "/index.md"
}

func (t *tree) isFolder(source string) bool {
	info, err := fs.Stat(t.repository, source)
	return err == nil && info.IsDir()
}

// place writes a file or a folder of the repository into the site, and what it links to.
func (t *tree) place(source string) error {
	if t.placed[source] {
		return nil
	}
	t.placed[source] = true
	if t.isFolder(source) {
		return t.placeFolder(source)
	}
	text, err := fs.ReadFile(t.repository, source)
	if err != nil {
		return err
	}
	if path.Ext(source) == ".md" {
		moved, linked := t.moveLinks(source, string(text))
		for _, other := range linked {
			if err := t.place(other); err != nil {
				return err
			}
		}
		if err := t.write("forge/"+t.sitePath(source), []byte(moved)); err != nil {
			return err
		}
		text = []byte(strings.Replace(portable(moved), trialMark, trialFrame, 1))
	}
	return t.write("pages/"+t.sitePath(source), text)
}

// placeFolder writes a list of a folder's files with links to them, or its README.md. Of a Go
// package it writes the names alone.
func (t *tree) placeFolder(source string) error {
	if strings.HasSuffix(t.sitePath(source), "README.md") {
		return t.place(source + "/README.md")
	}
	entries, err := fs.ReadDir(t.repository, source)
	if err != nil {
		return err
	}
	list := fmt.Sprintf("---\nsearch: {exclude: true}\n---\n\n# %s\n\n", source)
	program := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return path.Ext(e.Name()) == ".go" })
	for _, e := range entries {
		if program { // its source is the repository's, and not all of it a page
			list += fmt.Sprintf("- %s\n", e.Name())
			continue
		}
		list += fmt.Sprintf("- [%s](%s)\n", e.Name(), relative(t.sitePath(source), t.sitePath(source+"/"+e.Name())))
		if err := t.place(source + "/" + e.Name()); err != nil {
			return err
		}
	}
	return t.write("pages/"+t.sitePath(source), []byte(list))
}

func (t *tree) write(there string, text []byte) error {
	file := filepath.Join(t.to, there)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// moveLinks returns a page with its links as they are in the site, and the files and
// folders of the repository that it links to. A link to what is not there stays: the builder
// complains of it.
func (t *tree) moveLinks(source, text string) (moved string, linked []string) {
	from := t.sitePath(source)
	moved = outsideCode(text, func(line string) string {
		return link.ReplaceAllStringFunc(line, func(match string) string {
			parts := link.FindStringSubmatch(match)
			target, anchor, _ := strings.Cut(parts[2], "#")
			if target == "" || strings.Contains(target, ":") {
				return match
			}
			other := path.Join(path.Dir(source), target)
			if _, err := fs.Stat(t.repository, other); err != nil {
				return match
			}
			linked = append(linked, other)
			target = relative(from, t.sitePath(other))
			if anchor != "" {
				target += "#" + anchor
			}
			return parts[1] + target + parts[3]
		})
	})
	return moved, linked
}

// relative returns the link from one page of the site to another.
func relative(from, to string) string {
	target, err := filepath.Rel(path.Dir(from), to)
	if err != nil { // both are relative
		panic(err)
	}
	return filepath.ToSlash(target)
}

// folderInNav is a line of nav that names a folder of docs: "  - Papers: papers/".
var folderInNav = regexp.MustCompile(`(?m)^( *)- ([^:\n]+): ([\w-]+)/$`)

// expandNav replaces the folders in the builder's nav by their pages, README.md first.
func (t *tree) expandNav(settings []byte) ([]byte, error) {
	var failed error
	out := folderInNav.ReplaceAllFunc(settings, func(line []byte) []byte {
		m := folderInNav.FindSubmatch(line)
		var found []string
		err := fs.WalkDir(t.repository, "docs/"+string(m[3]), func(source string, _ fs.DirEntry, err error) error {
			if err == nil && path.Ext(source) == ".md" {
				found = append(found, t.sitePath(source))
			}
			return err
		})
		if err != nil {
			failed = err
		}
		slices.SortStableFunc(found, func(a, b string) int {
			return strings.Compare(strings.Replace(a, "README.md", "", 1), strings.Replace(b, "README.md", "", 1))
		})
		text := fmt.Sprintf("%s- %s:", m[1], m[2])
		for _, page := range found {
			text += fmt.Sprintf("\n%s    - %s", m[1], page)
		}
		return []byte(text)
	})
	return out, failed
}
