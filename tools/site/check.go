// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"golang.org/x/net/html"
)

// check returns what is wrong with a site that the builder made of a staged folder.
func check(staged, built string) (found []string, err error) {
	site, err := readSite(os.DirFS(built))
	if err != nil {
		return nil, err
	}
	found = append(site.brokenLinks(), site.requests()...)
	forge := os.DirFS(path.Join(staged, "forge"))
	compared := 0
	err = fs.WalkDir(forge, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		source, err := fs.ReadFile(forge, name)
		if err != nil {
			return err
		}
		page := site.pages[htmlName(name)]
		if page == nil {
			found = append(found, name+": the site has no page of it")
			return nil
		}
		compared++
		difference, err := compare(source, page)
		if difference != "" {
			found = append(found, name+": "+difference)
		}
		return err
	})
	if err == nil && compared == 0 {
		err = fmt.Errorf("%s has no pages; first: site stage", staged)
	}
	return found, err
}

// htmlName returns the page that the builder makes of a file of Markdown.
func htmlName(name string) string {
	name = strings.TrimSuffix(name, ".md") + ".html"
	if path.Base(name) == "README.html" {
		return path.Join(path.Dir(name), "index.html")
	}
	return name
}

// site is what the builder made.
type site struct {
	files fs.FS
	pages map[string]*html.Node
	names []string // of pages, sorted
	ids   map[string]map[string]bool
	css   []string
}

func readSite(files fs.FS) (*site, error) {
	s := &site{files: files, pages: map[string]*html.Node{}, ids: map[string]map[string]bool{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if path.Ext(name) == ".css" {
			s.css = append(s.css, name)
		}
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		f, err := files.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		root, err := html.Parse(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.pages[name], s.ids[name] = root, map[string]bool{}
		s.names = append(s.names, name)
		for n := range root.Descendants() {
			if id := attribute(n, "id"); id != "" {
				s.ids[name][id] = true
			}
		}
		return nil
	})
	return s, err
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// brokenLinks returns the links between the site's files that lead nowhere.
func (s *site) brokenLinks() (found []string) {
	for _, name := range s.names {
		if name == "404.html" {
			continue // served at any address, so that its links are from the root
		}
		for n := range s.pages[name].Descendants() {
			for _, key := range []string{"href", "src"} {
				if why := s.broken(name, attribute(n, key)); why != "" {
					found = append(found, fmt.Sprintf("%s: %s", name, why))
				}
			}
		}
	}
	return found
}

func (s *site) broken(name, target string) (why string) {
	u, err := url.Parse(target)
	if err != nil {
		return err.Error()
	}
	if target == "" || u.Scheme != "" || u.Host != "" {
		return ""
	}
	there := name
	if u.Path != "" {
		there = path.Join(path.Dir(name), u.Path)
	}
	info, err := fs.Stat(s.files, there)
	if err == nil && info.IsDir() {
		there = path.Join(there, "index.html")
		_, err = fs.Stat(s.files, there)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("there is no %s (%s)", there, target)
	case u.Fragment != "" && s.ids[there] != nil && !s.ids[there][u.Fragment]:
		return fmt.Sprintf("%s has no anchor #%s", there, u.Fragment)
	}
	return ""
}

// requests returns what the pages and their styles would fetch from another host.
func (s *site) requests() (found []string) {
	for _, name := range s.names {
		for n := range s.pages[name].Descendants() {
			for _, key := range []string{"src", "srcset", "href", "data", "poster", "action"} {
				link := attribute(n, key)
				if key == "href" && n.Data == "a" || n.Data == "link" && attribute(n, "rel") == "canonical" {
					continue // where a reader may go
				}
				if u, err := url.Parse(link); err != nil || u.Host != "" {
					found = append(found, fmt.Sprintf("%s: <%s %s=%q> asks another host", name, n.Data, key, link))
				}
			}
		}
	}
	for _, name := range s.css {
		text, err := fs.ReadFile(s.files, name)
		if err != nil {
			found = append(found, err.Error())
		}
		for _, what := range []string{"url(http", "url(\"http", "url('http", "url(//", "@import"} {
			if strings.Contains(string(text), what) {
				found = append(found, fmt.Sprintf("%s: %q asks for another file", name, what))
			}
		}
	}
	return found
}
