// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/dev/balancer"
	migration "weir/internal/dev/downtime"
	"weir/internal/dev/figures"
	"weir/internal/dev/papers/parts"
)

const pages = "docs/papers"

const unmeasured = figures.Folder + "/" + figures.UnmeasuredList

// built is every file that the data makes.
type built struct {
	files map[string][]byte // by path from the root
	plots map[string]string // path to the SHA-256 that the picture has
	names []string          // of files, in the order in which they were made
	left  []string          // pages and blocks that are left as they are: FILE: why
	parts []parts.Paper     // what the papers consist of
	done  []string          // those that are listed as older than the data, and whose runs are all there
}

func (b *built) add(name string, text []byte) {
	b.files[name], b.names = text, append(b.names, name)
}

func load(root string) (*figures.Runs, error) {
	return figures.Load(os.DirFS(filepath.Join(root, figures.Folder)))
}

// build makes all pages and blocks in memory.
func build(root string) (*built, error) {
	b := &built{files: map[string][]byte{}, plots: map[string]string{}}
	data, err := load(root)
	if err != nil {
		return nil, err
	}
	old, err := figures.ReadUnmeasured(filepath.Join(root, unmeasured))
	if err != nil {
		return nil, err
	}
	if b.parts, err = parts.Load(root); err != nil {
		return nil, err
	}
	b.add(pages+"/README.md", []byte(parts.Index(b.parts)))
	for _, p := range papers {
		if err := b.paper(root, p, data, old); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for page, make := range map[string]func(*figures.Runs) (map[string][]byte, error){
		pages + "/c-balancer-optimizer.md": balancer.Page, migration.Folder + "/migration.md": migration.Page,
	} {
		made, err := make(data)
		if err != nil {
			return nil, err
		}
		why, listed := old[page]
		delete(old, page)
		switch {
		case made == nil && listed:
			b.left = append(b.left, page+": "+why)
		case made == nil:
			return nil, fmt.Errorf("%s: no data; measure: scripts/papers c-balancer", page)
		case listed:
			b.done = append(b.done, page)
		}
		for _, name := range slices.Sorted(maps.Keys(made)) {
			b.add(name, made[name])
		}
	}
	if err := b.blocks(root, data, old); err != nil {
		return nil, err
	}
	if err := b.doctorCost(root, data); err != nil {
		return nil, err
	}
	for name := range old {
		return nil, fmt.Errorf("%s names %s, which has no such page or block; remove the line", unmeasured, name)
	}
	return b, nil
}

// paper adds a paper's page and notes its plots. old are the unmeasured pages; it is taken
// out of them.
func (b *built) paper(root string, p *paper, data *figures.Runs, old map[string]string) error {
	if p.head == "" { // runs for blocks of other pages
		for _, w := range p.wanted() {
			if r := data.Run(p.name + "/" + w.name()); r != nil && p.pictures {
				b.plots[path.Join(pages, r.Name+".svg")] = r.Source.Plot
			}
		}
		return nil
	}
	name := path.Join(pages, p.name+".md")
	r, err := read(p, data, os.DirFS(filepath.Join(root, "lab")))
	if err != nil {
		return err
	}
	if why, listed := old[name]; listed {
		delete(old, name)
		if len(r.missing) > 0 {
			b.left = append(b.left, name+": "+why)
			return nil
		}
		b.done = append(b.done, name)
	}
	if len(r.runs) == 0 {
		return fmt.Errorf("no run of it is in %s; measure: scripts/papers %s", figures.Folder, p.name)
	}
	text, plots, pictures := page(r)
	all, err := parts.Of(b.parts, p.name, data, pages)
	if err != nil {
		return err
	}
	b.add(name, []byte(text+all))
	for _, picture := range slices.Sorted(maps.Keys(pictures)) {
		file := path.Join(pages, p.name, picture+".svg")
		b.add(file, pictures[picture])
		b.plots[file] = digest(pictures[picture])
	}
	for _, plot := range plots {
		b.plots[path.Join(pages, p.name, plot+".svg")] = r.runs[plot].source.Plot
	}
	return nil
}

// blocks adds README.md and the pages of docs that have blocks.
func (b *built) blocks(root string, data *figures.Runs, old map[string]string) error {
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, file := range append([]string{filepath.Join(root, "README.md"), filepath.Join(root, pages, "c-balancer.md")}, names...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !figures.HasBlocks(text) {
			continue
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		made, err := figures.Blocks(text, func(block, present string) (string, error) {
			place := name + "#" + block
			if of, is := strings.CutPrefix(block, "parts-"); is {
				return parts.Of(b.parts, of, data, path.Dir(name))
			}
			got, err := blockText(root, data, block)
			why, listed := old[place]
			delete(old, place)
			switch {
			case listed && err != nil:
				b.left = append(b.left, place+": "+why)
				return present, nil
			case listed:
				b.done = append(b.done, place)
			}
			return got, err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.add(name, made)
	}
	return nil
}

// write makes all files anew and removes plots that no page shows.
func write(root string) error {
	data, err := load(root)
	if err != nil {
		return err
	}
	if err := data.Refresh(root, time.Now().UTC().Format(time.DateOnly)); err != nil {
		return err
	}
	b, err := build(root)
	if err != nil {
		return err
	}
	for _, name := range b.names {
		if err := os.WriteFile(filepath.Join(root, name), b.files[name], 0o644); err != nil {
			return err
		}
	}
	for _, l := range b.left {
		fmt.Fprintln(os.Stderr, "left as it is:", l)
	}
	if err := figures.Prune(filepath.Join(root, unmeasured), b.done); err != nil {
		return err
	}
	return b.eachPlot(root, func(file, want string) error {
		if want == "" {
			return os.Remove(file)
		}
		return nil
	})
}

// eachPlot calls f with every picture of a page that was made, and the digest that it
// should have: "" = no page shows it.
func (b *built) eachPlot(root string, f func(file, want string) error) error {
	for _, p := range papers {
		if _, made := b.files[path.Join(pages, p.name+".md")]; !made || p.head == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, pages, p.name, "*.svg"))
		if err != nil {
			return err
		}
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			if err := f(file, b.plots[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// problems are a line for each file that differs from its data, and for each run whose data cannot
// be held against the tree.
func problems(root string) ([]string, *built, error) {
	b, err := build(root)
	if err != nil {
		return nil, nil, err
	}
	list := figures.Compare(root, b.names, b.files)
	for _, name := range b.done {
		list = append(list, fmt.Sprintf("%s: it lists %s, whose runs are all there; run make figures", unmeasured, name))
	}
	for _, name := range slices.Sorted(maps.Keys(b.plots)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || digest(text) != b.plots[name] {
			list = append(list, fmt.Sprintf("%s:1: not the picture that its run drew; measure again: scripts/papers %s",
				name, strings.TrimSuffix(strings.TrimPrefix(name, pages+"/"), ".svg")))
		}
	}
	err = b.eachPlot(root, func(file, want string) error {
		if want == "" {
			list = append(list, file+":1: no page shows it; run make figures")
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	data, err := load(root)
	if err != nil {
		return nil, nil, err
	}
	return append(list, data.Wrong(root)...), b, nil
}

func check(root string) error {
	list, b, err := problems(root)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stderr)
	defer out.Flush()
	for _, l := range b.left {
		fmt.Fprintln(out, "not from data:", l)
	}
	for _, p := range list {
		fmt.Fprintln(out, p)
	}
	if len(list) > 0 {
		return fmt.Errorf("%d disagreements between pages, data and source", len(list))
	}
	return nil
}

// fresh fails if figures are stale, naming their commits.
func fresh(root string) error {
	data, err := load(root)
	if err != nil {
		return err
	}
	if list := data.Stale(); len(list) > 0 {
		return fmt.Errorf("docs quote figures of other code than this; make papers measures them again:\n%s", strings.Join(list, "\n"))
	}
	return nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
