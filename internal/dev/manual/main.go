// SPDX-License-Identifier: Apache-2.0

// Command manual writes the manual pages of a package: one page for each command of its
// programs, made from the definitions that "weir COMMAND --help" prints, and weir.yaml(5), made
// from deploy/weir.yaml. Nothing is written by hand, so a page cannot differ from its program.
//
//	go run ./internal/dev/manual -version 1.2.0 -time 1764000000 -package weir FOLDER
//
// writes FOLDER/man1/weir.1, FOLDER/man1/weir-set.1 and so on. The same program, version and
// time give the same bytes.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/face/cli"
	"weir/internal/face/cli/frame"
	"weir/internal/face/managercli"
	"weir/internal/kube"
	"weir/internal/kube/plugin"
	"weir/internal/lab/labcli"
)

// packages returns, for each package, the function that makes its pages.
var packages = map[string]func(edition) ([]page, error){
	"weir": func(e edition) ([]page, error) {
		reference, err := e.configuration("deploy/weir.yaml")
		return append(e.tree(cli.Root()), reference), err
	},
	"weir-lab": func(e edition) ([]page, error) {
		// The root is that of weir, which has its own page.
		return e.below(labcli.Root(&frame.App{})), nil
	},
	"weir-manager": func(e edition) ([]page, error) {
		// weir manager has its page in the package weir.
		manager, _, err := managercli.Root(&frame.App{}).Find([]string{"manager"})
		return e.below(manager), err
	},
	"weir-kubernetes": func(e edition) ([]page, error) {
		return []page{
			e.flags("weir-kubernetes", "weir-kubernetes [flags]", kube.About, kube.Flags()),
			e.flags("kubectl-weir", plugin.Synopsis, plugin.About, plugin.Flags()),
		}, nil
	},
}

func main() {
	version := flag.String("version", "unknown", "`VERSION` of the programs")
	seconds := flag.Int64("time", 0, "`SECONDS` since 1970, the date of the pages")
	name := flag.String("package", "weir", "`NAME` of the package: "+strings.Join(slices.Sorted(maps.Keys(packages)), ", "))
	flag.Parse()
	if err := run(*name, edition{*version, time.Unix(*seconds, 0).UTC()}, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "manual: "+err.Error())
		os.Exit(1)
	}
}

func run(name string, e edition, args []string) error {
	pages := packages[name]
	if pages == nil || len(args) != 1 {
		return fmt.Errorf("give a -package (%s) and one FOLDER", strings.Join(slices.Sorted(maps.Keys(packages)), ", "))
	}
	all, err := pages(e)
	if err != nil {
		return err
	}
	for _, p := range all {
		folder := filepath.Join(args[0], "man"+p.section)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, p.name+"."+p.section), []byte(p.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
