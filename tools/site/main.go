// SPDX-License-Identifier: Apache-2.0

// Site prepares the documentation for a site builder, and judges what the builder made.
//
//	site stage ROOT FOLDER          pages of ROOT, the repository, into FOLDER
//	site check FOLDER SITE          SITE, made of FOLDER by the builder
//
// Pages are written for a forge. stage copies docs/ with README.md as its first page. Of the
// files outside docs that a page links to, Markdown becomes a page, any other file is
// copied as it is, and a folder becomes a list of its files; each has the same path as in
// the repository, from the site's root. Example: ../lab/demo/shares.yaml in docs/cli.md
// becomes lab/demo/shares.yaml, and docs/deploy.md in README.md loses its folder. FOLDER
// also gets mkdocs.yml, with the folders in its nav replaced by their pages.
//
// check says which links and anchors of the site lead nowhere, which pages ask another host
// for anything, and where a page has other lists, tables, headings or blocks of code than
// a forge shows. A builder's Markdown is not CommonMark; stage writes out what it reads in
// another way.
package main

import (
	"fmt"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("site: ")
	if len(os.Args) != 4 {
		usage()
	}
	switch verb, from, to := os.Args[1], os.Args[2], os.Args[3]; verb {
	case "stage":
		if err := stage(from, to); err != nil {
			log.Fatal(err)
		}
	case "check":
		found, err := check(from, to)
		if err != nil {
			log.Fatal(err)
		}
		for _, trouble := range found {
			log.Print(trouble)
		}
		if len(found) > 0 {
			os.Exit(1)
		}
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: site stage ROOT FOLDER | site check FOLDER SITE")
	os.Exit(2)
}
