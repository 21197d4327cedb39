// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"weir/internal/core/policy"
)

// commented is a setting in a comment: "# socket: /run/weir/weir.sock", "#   - {name: ...".
var commented = regexp.MustCompile(`(?m)^( *)# ( *(?:- *\{|(?:- )?"?[a-z_*-]+"?:(?: |$)).*)$`)

// nested is the beginning of a setting that is commented out in an example: "#     # force: false".
var nested = regexp.MustCompile(`(?m)^#( +)# `)

// deployed returns the file that is delivered, as it is and with all that stands behind
// "# ", in the place of links: [].
func deployed(t *testing.T) (text, all []byte) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all = bytes.Replace(text, []byte("\nlinks: []\n"), []byte("\n"), 1)
	list := filepath.Join(t.TempDir(), "cdn.txt")
	if err := os.WriteFile(list, []byte("192.0.2.0/24\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all = bytes.Replace(all, []byte("/etc/weir/cdn.txt"), []byte(list), 1)
	all = nested.ReplaceAll(all, []byte("#$1"))
	return text, commented.ReplaceAll(all, []byte("$1$2"))
}

// TestExample: the file that is delivered is right, and so is all of it that
// stands behind a "# ".
func TestExample(t *testing.T) {
	text, whole := deployed(t)
	c, err := Parse("weir.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse("weir.yaml", whole)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, whole)
	}
	if len(all.Workloads) != 6 || len(all.Attach) != 7 || len(all.Groups) != 1 || len(all.Links[0].Zones) != 3 {
		t.Errorf("not all examples were read: %+v", all)
	}
	// What the comments call defaults are.
	want := Default()
	want.Path, want.Links = c.Path, []Link{DefaultLink("eth0", 100e6)}
	all.Links[0].Zones, all.Docker.Asked = nil, false
	all.Workloads, all.Attach, all.Groups, all.Defaults = nil, nil, nil, policy.Change{}
	// These are examples, or the manager's own defaults.
	all.MarkMask, all.MarkAuto = 0, false
	all.SDN, all.Metrics, all.Tell, all.Web = want.SDN, want.Metrics, want.Tell, want.Web
	all.Cluster = Cluster{Listen: all.Cluster.Listen, RegistryListen: all.Cluster.RegistryListen}
	all.Manager.Images, all.Manager.Automatic, all.Manager.Kafka, all.Manager.Web = Images{}, Automatic{}, Kafka{}, Web{}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("got\n%+v, want\n%+v", all, want)
	}
	// As it is delivered it steers nothing.
	want.Links, want.NoLink = nil, true
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got\n%+v, want\n%+v", c, want)
	}
}

// TestExampleHasEveryKey: there is no key that deploy/weir.yaml does not have. What a
// policy has, and what one of its queues has, may stand in any policy of the file.
func TestExampleHasEveryKey(t *testing.T) {
	_, whole := deployed(t)
	root, err := parseTree(whole)
	if err != nil {
		t.Fatal(err)
	}
	index, layer := regexp.MustCompile(`\[\d+\]`), regexp.MustCompile(`^(defaults|workloads|groups)\..*?([^.]+)$`)
	zone := regexp.MustCompile(`\.zones\.[^.]+`)
	known := map[string]bool{}
	root.tree.asked = func(path string, given bool) {
		path = zone.ReplaceAllString(path, ".zones.NAME")
		path = layer.ReplaceAllString(index.ReplaceAllString(path, "[]"), "policy.$2")
		known[path] = known[path] || given
	}
	c := Default()
	c.read(root)
	if len(known) < 60 {
		t.Errorf("only %d keys are known", len(known))
	}
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if !known[path] {
			t.Errorf("deploy/weir.yaml lacks %s", path)
		}
	}
}
