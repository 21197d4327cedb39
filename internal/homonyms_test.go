// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// idiom are the names that a Go package gives its one type of that kind: the package's name says
// whose it is.
var idiom = []string{"Agent", "Client", "Config", "Conn", "Error", "Kind", "Manager", "Options", "Result", "Server"}

// mirrored are the things that have one meaning and a type in each layer that they cross: what an
// administrator writes, what crosses a socket, what the kernel or the lab is told.
var mirrored = []string{"Allocation", "Automatic", "Authority", "Cancellation", "Class", "Cluster", "Container", "Control", "Device", "Docker", "Division", "Edit", "Engine", "Event", "Events", "Field", "Flow",
	"Flows", "Gains", "Group", "Image", "Images", "Interface", "Link", "LinkMin", "Match", "Members", "Membership", "Move", "Node", "Packet", "Pod", "Policy", "Port", "Profile", "Proxy", "Quota",
	"Queue", "Rate", "Rule", "Share", "Source", "Switch", "Token", "Usage", "Workload", "Zone"}

// A word is one thing: an exported type's name is found in one wing alone.
func TestNoNewHomonyms(t *testing.T) {
	wings := map[string]map[string]bool{}
	for _, s := range sources(t) {
		dir := strings.Split(path.Dir(s.path), "/")
		if len(dir) < 2 || dir[0] != "internal" || dir[1] == "test" {
			continue
		}
		for _, d := range s.file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if is, ok := spec.(*ast.TypeSpec); ok && is.Name.IsExported() {
					if wings[is.Name.Name] == nil {
						wings[is.Name.Name] = map[string]bool{}
					}
					wings[is.Name.Name][dir[1]] = true
				}
			}
		}
	}
	for name, in := range wings {
		known := slices.Contains(slices.Concat(idiom, mirrored), name)
		if len(in) > 1 && !known {
			t.Errorf("%s is a type of the wings %v: one word, one thing", name, slices.Sorted(maps.Keys(in)))
		}
	}
	for _, name := range slices.Concat(idiom, mirrored) {
		if len(wings[name]) < 2 {
			t.Errorf("%s is a type of %d wings by now: take it off this file's list", name, len(wings[name]))
		}
	}
}
