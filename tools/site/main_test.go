// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

// TestStage: links of a page lead to where the site has their targets, and the nav has
// the pages of a folder.
func TestStage(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "staged")
	for name, text := range map[string]string{
		"README.md":                 "# Weir\n\n[deploy](docs/deploy.md#two) and ![x](docs/papers/x.svg)\n",
		"CHANGELOG.md":              "# Changelog\n",
		"SECURITY.md":               "# Security\n",
		"vm/README.md":              "# VMs\n",
		"deploy/README.md":          "# Files\n\n[page](../docs/deploy.md)\n",
		"docs/README.md":            "# The pages\n\n[all](deploy.md), [package](../internal/x)\n",
		"internal/x/x.go":           "package x\n",
		"docs/deploy.md":            "# Deploy\n\n## Two\n\n[lab](../lab/a.yaml), [all](../lab), [files](../deploy/README.md), [web](https://example.org)\n\n    [code](../lab/a.yaml)\n",
		"docs/papers/x.svg":         "<svg/>",
		"docs/papers/data/y.jsonl":  "{}",
		"docs/decisions/0002-b.md":  "# B\n\n[readme](../../README.md), [gone](nothing.md)\n",
		"docs/decisions/README.md":  "# Decisions\n",
		"lab/a.yaml":                "a: 1\n",
		"tools/site/mkdocs.yml":     "nav:\n  - Decisions: decisions/\n",
		"tools/site/assets/own.css": "",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := stage(root, to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"pages/index.md":            "[deploy](deploy.md#two) and ![x](papers/x.svg)",
		"pages/deploy.md":           "[lab](lab/a.yaml), [all](lab/index.md), [files](deploy/README.md), [web](https://example.org)",
		"pages/deploy/README.md":    "[page](../deploy.md)",
		"pages/decisions/0002-b.md": "[readme](../index.md), [gone](nothing.md)",
		"pages/lab/index.md":        "- [a.yaml](a.yaml)",
		"pages/lab/a.yaml":          "a: 1",
		"pages/map.md":              "[all](deploy.md), [package](internal/x/index.md)",
		"pages/internal/x/index.md": "- x.go",
		"pages/assets/own.css":      "",
		"mkdocs.yml":                "  - Decisions:\n      - decisions/README.md\n      - decisions/0002-b.md\n",
	} {
		text, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v; want %q in it", name, text, err, want)
		}
	}
	for name, what := range map[string]string{"papers/data/y.jsonl": "data to which no page links", "internal/x/x.go": "a package's source"} {
		if _, err := os.Stat(filepath.Join(to, "pages", name)); err == nil {
			t.Errorf("%s is in the site", what)
		}
	}
}

// TestPortable: what Python-Markdown reads otherwise than CommonMark is written out.
func TestPortable(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"list after a paragraph": {"one:\n- a\n- b", "one:\n\n- a\n- b"},
		"list after a line":      {"one\n\n- a\n- b", "one\n\n- a\n- b"},
		"list in a list":         {"1. a:\n   - b\n   - c", "1. a:\n    - b\n    - c"},
		"bar in code in a table": {"| `a\\|<b>` | c |", "| <code>a&#124;&lt;b&gt;</code> | c |"},
		"bar in code":            {"`a\\|b`", "`a\\|b`"},
		"block of code":          {"```\nx\n- a\n| `a\\|b` |\n```", "```\nx\n- a\n| `a\\|b` |\n```"},
		"more marks":             {"````\n```\nx\n- a\n````\nx\n- a", "````\n```\nx\n- a\n````\nx\n\n- a"},
	} {
		if got := portable(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCheckSite: links and anchors that lead nowhere, and requests to other hosts, are found.
func TestCheckSite(t *testing.T) {
	s, err := readSite(fstest.MapFS{
		"index.html": {Data: []byte(`<a href="a/#x">yes</a><a href="a/b.html#y">no</a><a href="c.html">no</a><a href="https://example.org">yes</a>
			<script src="https://example.org/x.js"></script><img src="//example.org/x.png"><link rel="canonical" href="https://example.org/">`)},
		"a/index.html": {Data: []byte(`<p id="x"><a href="../index.html">yes</a>`)},
		"a/b.html":     {Data: []byte(`<p>`)},
		"a.css":        {Data: []byte(`@font-face { src: url("https://example.org/f.woff2") }`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"index.html: a/b.html has no anchor #y", "index.html: there is no c.html (c.html)"}
	if got := s.brokenLinks(); !slices.Equal(got, want) {
		t.Errorf("links: %q, want %q", got, want)
	}
	want = []string{
		`index.html: <script src="https://example.org/x.js"> asks another host`,
		`index.html: <img src="//example.org/x.png"> asks another host`,
		`a.css: "url(\"http" asks for another file`,
	}
	if got := s.requests(); !slices.Equal(got, want) {
		t.Errorf("requests: %q, want %q", got, want)
	}
}

// TestCompare: a page that the site shows as a forge does is the same, with the builder's
// own additions; a list that became text is not.
func TestCompare(t *testing.T) {
	source := []byte("# A *b*\n\none\n- x `y`\n\nz\n\n\ta\n\t\tb\n")
	for name, c := range map[string]struct {
		page string
		same bool
	}{
		"same":     {`<article><h1>A <em>b</em><a class="headerlink">¶</a></h1><p>one</p><ul><li><p>x <code>y</code></p></li></ul><p>z</p><div><pre><code>a` + "\n    b\n" + `</code></pre></div></article>`, true},
		"no list":  {`<article><h1>A <em>b</em></h1><p>one - x <code>y</code></p><p>z</p><pre><code>a` + "\n    b\n" + `</code></pre></article>`, false},
		"too much": {`<article><h1>A <em>b</em></h1><p>one</p><ul><li>x <code>y</code></li></ul><p>z</p><pre>a` + "\n    b\n" + `</pre>more</article>`, false},
	} {
		page, err := html.Parse(strings.NewReader(c.page))
		if err != nil {
			t.Fatal(err)
		}
		difference, err := compare(source, page)
		if err != nil || (difference == "") != c.same {
			t.Errorf("%s: %q, %v", name, difference, err)
		}
	}
}
