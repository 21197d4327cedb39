// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
)

// asForge renders CommonMark with GitHub's tables and strikethrough, which forges have.
var asForge = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
	goldmark.WithRendererOptions(goldmarkhtml.WithUnsafe()))

// told are the elements whose beginning is compared. Paragraphs are not: whether an item
// of a list has one changes a distance only.
var told = []string{"h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "table", "tr", "th", "td", "img", "blockquote", "code", "strong", "em"}

// compare returns the first difference between a page as a forge shows it and as the
// site does, "" if there is none.
func compare(source []byte, page *html.Node) (difference string, err error) {
	var rendered bytes.Buffer
	if err := asForge.Convert(source, &rendered); err != nil {
		return "", err
	}
	root, err := html.Parse(&rendered)
	if err != nil {
		return "", err
	}
	article := find(page, "article")
	if article == nil {
		return "the site's page has no <article>", nil
	}
	forge, site := tokens(root), tokens(article)
	for i := range max(len(forge), len(site)) {
		if i >= len(forge) || i >= len(site) || forge[i] != site[i] {
			return fmt.Sprintf("a forge shows %q, the site %q, after %q", part(forge, i, i+8), part(site, i, i+8), part(forge, i-8, i)), nil
		}
	}
	return "", nil
}

func part(list []string, from, to int) string {
	return strings.Join(list[min(max(from, 0), len(list)):min(to, len(list))], " ")
}

func find(n *html.Node, element string) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == element {
			return d
		}
	}
	return nil
}

// tokens returns the words of a page and the elements in which they are. In a block of
// code a line is a word.
func tokens(n *html.Node) (found []string) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			found = append(found, strings.Fields(c.Data)...)
		case c.Type != html.ElementNode, builderOwn(c):
		case c.Data == "pre":
			found = append(found, "<pre>")
			found = append(found, strings.Split(strings.TrimRight(expandTabs(textOf(c)), " \n"), "\n")...)
		default:
			if slices.Contains(told, c.Data) {
				found = append(found, "<"+c.Data+">")
			}
			found = append(found, tokens(c)...)
		}
	}
	return found
}

// builderOwn says whether an element is the builder's addition to a page.
func builderOwn(n *html.Node) bool {
	class := strings.Fields(attribute(n, "class"))
	return slices.ContainsFunc(class, func(c string) bool { return c == "headerlink" || strings.HasPrefix(c, "md-") && n.Data != "table" })
}

func textOf(n *html.Node) string {
	var text strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			text.WriteString(d.Data)
		}
	}
	return text.String()
}

// expandTabs returns a text with tab stops at each fourth column, as builders write code.
func expandTabs(text string) string {
	var out strings.Builder
	column := 0
	for _, r := range text {
		switch r {
		case '\n':
			column = -1
		case '\t':
			out.WriteString("    "[:4-column%4])
			column += 4 - column%4
			continue
		}
		out.WriteRune(r)
		column++
	}
	return out.String()
}
