// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/base/cgroup"
	"weir/internal/core/workload"
)

// cgroupTree is a folder that looks like a cgroup2 mount; folders of an ordinary
// file system are watched as those of cgroups are.
type cgroupTree struct {
	*testing.T
	root string
}

func newCgroupTree(t *testing.T) cgroupTree { return cgroupTree{t, t.TempDir()} }

func (c cgroupTree) read() cgroup.Hierarchy { return cgroup.Hierarchy{Root: c.root} }

func (c cgroupTree) add(path string) {
	c.Helper()
	if err := os.MkdirAll(filepath.Join(c.root, path), 0o755); err != nil {
		c.Fatal(err)
	}
}

func (c cgroupTree) remove(path string) {
	c.Helper()
	if err := os.Remove(filepath.Join(c.root, path)); err != nil {
		c.Fatal(err)
	}
}

func (c cgroupTree) rename(from, to string) {
	c.Helper()
	if err := os.Rename(filepath.Join(c.root, from), filepath.Join(c.root, to)); err != nil {
		c.Fatal(err)
	}
}

// lines returns the workloads as "unit:web system.slice/web.service (note)".
func (c cgroupTree) lines(list []Workload) []string {
	var lines []string
	for _, w := range list {
		line := w.Key
		for _, folder := range w.Cgroups {
			line += " " + strings.TrimPrefix(folder, c.root+"/")
		}
		if w.Note != "" {
			line += " (" + w.Note + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// expect runs a source; the function that it returns waits for a list.
func (c cgroupTree) expect(source Source) func(when string, want ...string) {
	r := runSource(c.T, source)
	return func(when string, want ...string) {
		c.Helper()
		r.wait(fmt.Sprintf("%s: %q", when, want), func(list []Workload) bool { return slices.Equal(c.lines(list), want) })
	}
}

func TestUnitsComeAndGo(t *testing.T) {
	c := newCgroupTree(t)
	c.add("system.slice/nginx.service")
	c.add("system.slice/cron.service")
	s := newCgroups(logger(t), c.read)
	if err := s.AddUnits("web", "nginx"); err != nil {
		t.Fatal(err)
	}
	expect := c.expect(s)
	expect("at first", "unit:web system.slice/nginx.service")
	if err := s.AddUnits("", "worker@*"); err == nil || !strings.Contains(err.Error(), `unit "worker@*" does not run`) {
		t.Errorf("%v", err)
	}
	if err := s.AddUnits("", "worker@*.service", Wait); err != nil {
		t.Fatal(err)
	}
	c.add("system.slice/system-worker.slice/worker@1.service") // in a slice that comes with it
	expect("a unit of the pattern", "unit:web system.slice/nginx.service",
		"unit:worker@1.service system.slice/system-worker.slice/worker@1.service")
	c.add("system.slice/system-worker.slice/worker@2.service")
	expect("another", "unit:web system.slice/nginx.service",
		"unit:worker@1.service system.slice/system-worker.slice/worker@1.service",
		"unit:worker@2.service system.slice/system-worker.slice/worker@2.service")
	c.remove("system.slice/nginx.service")
	c.remove("system.slice/system-worker.slice/worker@1.service")
	expect("stopped", "unit:web", "unit:worker@2.service system.slice/system-worker.slice/worker@2.service")
	if err := s.AddUnits("two", "worker@2.service, nginx"); err != nil {
		t.Fatal(err)
	}
	expect("a name takes it out of the pattern", "unit:two system.slice/system-worker.slice/worker@2.service", "unit:web")
	for _, err := range []error{s.Remove("two"), s.RemoveUnits("worker@*.service")} {
		if err != nil {
			t.Error(err)
		}
	}
	c.add("system.slice/nginx.service")
	expect("back", "unit:web system.slice/nginx.service")
}

// A unit that is restarted has a new cgroup at the old path; the list in between says so,
// or the agent would not mark the packets of the new one.
func TestUnitIsMadeAnew(t *testing.T) {
	c := newCgroupTree(t)
	c.add("system.slice/nginx.service")
	s := newCgroups(logger(t), c.read)
	if err := s.AddUnits("web", "nginx.service"); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	look := func() {
		list, _ := s.list()
		got = append(got, c.lines(list))
	}
	look()
	// Both before the source looks. The new folder is made while the old one is there, so
	// that it cannot get the old one's inode, whatever else makes files at that moment.
	c.add("system.slice/other.service")
	c.remove("system.slice/nginx.service")
	c.rename("system.slice/other.service", "system.slice/nginx.service")
	look()
	look()
	there := []string{"unit:web system.slice/nginx.service"}
	if want := [][]string{there, {"unit:web"}, there}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCgroupByFolder(t *testing.T) {
	c := newCgroupTree(t)
	c.add("jobs/batch")
	s := newCgroups(logger(t), c.read)
	for folder, want := range map[string]string{
		"":  "give a folder",
		"/": "is the root, in which all processes are",

		strings.Repeat("/a", 16): "its cgroup is 16 levels below the top, and packets are told apart by at most 15",

		c.root:        "is the root, in which all processes are",
		"/jobs/other": `cgroup "/jobs/other" does not exist (` + c.root + `/jobs/other): name a folder below ` + c.root,
	} {
		if err := s.AddCgroup("x", folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", folder, err, want)
		}
	}
	if err := s.AddCgroup("batch", "/jobs/batch"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddCgroup("late", c.root+"/late", Wait); err != nil {
		t.Fatal(err)
	}
	if err := s.AddUnits("late", "x.service", Wait); err == nil || !strings.Contains(err.Error(), "is attached already, to "+c.root+"/late") {
		t.Errorf("%v", err)
	}
	expect := c.expect(s)
	expect("at first", "cgroup:batch jobs/batch", "cgroup:late")
	c.add("late")
	c.remove("jobs/batch")
	expect("the other", "cgroup:batch", "cgroup:late late")
}

func TestUnitsWithoutCgroups(t *testing.T) {
	legacy := func() cgroup.Hierarchy { return cgroup.Hierarchy{Root: t.TempDir(), Legacy: true} }
	s := newCgroups(logger(t), legacy)
	if state, note := s.Status(); state != workload.SourceOK || note != "" {
		t.Errorf("nobody asks: %s, %s", state, note)
	}
	const why = "in cgroups of version 1, which cannot mark packets; boot with systemd.unified_cgroup_hierarchy=1"
	if err := s.AddUnits("web", "nginx.service"); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v", err)
	}
	if err := s.AddUnits("web", "nginx.service", Wait); err != nil {
		t.Fatal(err)
	}
	list, _ := s.list()
	if len(list) != 1 || !strings.Contains(list[0].Note, why) {
		t.Errorf("%v", list)
	}
	if state, note := s.Status(); state != workload.SourceUnavailable || !strings.Contains(note, why) {
		t.Errorf("%s, %s", state, note)
	}
}

func TestSplitUnits(t *testing.T) {
	for text, want := range map[string]string{
		"nginx":                              "[nginx.service]",
		"docker.service, containerd.service": "[docker.service containerd.service]",
		"worker@*":                           "[worker@*.service]",
		`dev-disk\x2dby.swap`:                `[dev-disk\x2dby.swap]`,
		"machine.slice":                      "[machine.slice]",
		"a,":                                 "give the name of a systemd unit",
		"/system.slice/a":                    "a unit's name has no slash",
		"[":                                  "is no pattern",
	} {
		got, err := splitUnits(text)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
		if err == nil && !matcher(got)(strings.ReplaceAll(got[0], "*", "7")) {
			t.Errorf("%q does not match itself", text)
		}
	}
}
