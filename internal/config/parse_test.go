// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"weir/internal/base/safepath/safepathtest"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
	"weir/internal/test/goldentest"
)

// TestProblems compares the problems of bad files with golden text.
func TestProblems(t *testing.T) {
	problems(t, "testdata/*.yaml", func(text []byte) error { _, err := Parse("weir.yaml", text); return err })
}

// problems compares the problems of each bad file with its golden text.
func problems(t *testing.T, pattern string, parse func(text []byte) error) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err = parse(text); err == nil {
				t.Fatal("no error")
			}
			goldentest.Check(t, strings.TrimSuffix(file, ".yaml")+".golden", err.Error()+"\n")
		})
	}
}

func TestParse(t *testing.T) {
	got, err := Parse("/etc/weir/weir.yaml", []byte(`
links:
  - &uplink {device: eth0, egress: 100mbit}
  - device: wwan0
    egress: 7.5mbit
    reservable: 75%
    scheduler: qcon
    overhead: ethernet
    force: true
  - {device: eth1, egress: 1G, overhead: -4, favour: cpu}
  - {device: eth2, egress: 1G, favour: neither}
defaults: {weight: 2}
workloads:
  "web-*": {weight: 3, min: 20mbit}
  db: {min: 25%, max: none, limit_packets: 500, limit_bytes: 750000}
  idle:
  image-pulls: {max: 10%}
attach:
  - {name: vm1, device: tap0}
  - {name: probe, netns: probe}
  - {name: web, unit: "nginx, php-fpm@*"}
  - {unit: "worker@*.service"}
  - {device: "vnet*"}
  - {name: batch, cgroup: /sys/fs/cgroup/batch}
docker: {enabled: false, socket: unix:///run/d.sock}
labels: {allow: [weight, group], images: yes}
backend: tc
mark_mask: 0x0fff0000
profile: small
socket: /tmp/w.sock
group: ops
view_group: watchers
metrics: {listen: "127.0.0.1:9469"}
state_dir: /tmp/state
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Path: "/etc/weir/weir.yaml",
		Links: []Link{
			{Device: "eth0", Egress: 100e6, Reservable: 1, Scheduler: "fair"},
			{Device: "wwan0", Egress: 7.5e6, Reservable: 0.75, Scheduler: "qcon", Framing: framing.Framing{Overhead: 38, FromIP: true, Least: 84}, Force: true},
			{Device: "eth1", Egress: 1e9, Reservable: 1, Scheduler: "fair", Framing: framing.Framing{Overhead: -4}, Favour: plan.FavourCPU},
			{Device: "eth2", Egress: 1e9, Reservable: 1, Scheduler: "fair"},
		},
		Defaults: policy.MustChange("weight", "2"),
		Workloads: []Rule{
			{"web-*", policy.MustChange("weight", "3", "min", "20mbit")},
			{"db", policy.MustChange("min", "25%", "max", "none", "limit_packets", "500", "limit_bytes", "750000")},
			{"idle", policy.Change{}},
			{"image-pulls", policy.MustChange("max", "10%")},
		},
		Attach: []Attachment{
			{Name: "vm1", Device: "tap0"}, {Name: "probe", Netns: "probe"}, {Name: "web", Unit: "nginx, php-fpm@*"},
			{Unit: "worker@*.service"}, {Device: "vnet*"}, {Name: "batch", Cgroup: "/sys/fs/cgroup/batch"},
			{Name: "image-pulls", Unit: "docker.service,containerd.service"}, // since it has a policy
		},
		Cluster: DefaultCluster(), Manager: DefaultManager(),
		Docker:    Docker{Enabled: false, Asked: true, Socket: "/run/d.sock"},
		Labels:    Labels{Allow: []string{"weight", "group"}, Images: true},
		Backend:   "tc",
		MarkMask:  0x0fff0000,
		Profile:   "small",
		Socket:    "/tmp/w.sock",
		Group:     "ops",
		Tell:      DefaultTell(),
		ViewGroup: "watchers",
		Metrics:   Metrics{Listen: []string{"127.0.0.1:9469"}},
		StateDir:  "/tmp/state",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestEmpty: a file that says nothing is the default.
func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "links:\ndocker:\n", "---\n", "\ufeff"} {
		got, err := Parse("f", []byte(text))
		want := Default()
		want.Path = "f"
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func TestLayerFor(t *testing.T) {
	c, err := Parse("f", []byte(`
workloads:
  web-1: {weight: 9}
  "*": {weight: 1, max: 50mbit}
  "web-*": {weight: 2, min: 10mbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, workload string
		want           policy.Policy
	}{
		{"only the widest glob", "db", policy.Policy{Weight: 1, Max: policy.Amount{Rate: 50e6}}},
		{"a later glob wins", "web-2", policy.Policy{Weight: 2, Min: policy.Amount{Rate: 10e6}, Max: policy.Amount{Rate: 50e6}}},
		{"the name wins wherever it stands", "web-1", policy.Policy{Weight: 9, Min: policy.Amount{Rate: 10e6}, Max: policy.Amount{Rate: 50e6}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := c.LayerFor(test.workload).Apply(policy.Policy{}); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "weir.yaml"))
	if err == nil || !strings.Contains(err.Error(), "--link") {
		t.Errorf("no remedy: %v", err)
	}
}

// FuzzParse: no text makes the parser crash, and what it takes stays within
// the bounds that it promises.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(text)
	}
	f.Add([]byte("links: [{device: eth0, egress: 100mbit, reservable: 50%}]\nworkloads: {a: &a {weight: 3}, b: *a}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text)
		if err != nil {
			return
		}
		for _, l := range c.Links {
			if l.Device == "" || l.Egress == 0 || l.Reservable <= 0 || l.Reservable > 1 {
				t.Errorf("accepted link %+v", l)
			}
		}
		for _, r := range append(c.Workloads, Rule{Layer: c.Defaults}) {
			fits := r.Layer.Apply(policy.Default()).Check()
			if len(r.Layer.To().Queues) > 0 && !r.Layer.Gives("discipline") {
				for _, d := range []discipline.Name{discipline.PQ, discipline.CBWFQ, discipline.LLQ} { // which another layer may give
					if err := r.Layer.Apply(policy.Policy{Weight: 1, Discipline: d}).Check(); fits != nil {
						fits = err
					}
				}
			}
			if fits != nil {
				t.Errorf("accepted %q: %v", r.Pattern, fits)
			}
		}
		for _, a := range c.Attach {
			if a.Check() != nil {
				t.Errorf("accepted attachment %+v", a)
			}
		}
	})
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"web": true, "web-1.example_x": true, "0": true,
		"": false, "host": false, "-web": false, "a b": false, "a/b": false, strings.Repeat("x", 65): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestIngressLayers: the ingress fields of several layers add up, as the other fields do.
func TestIngressLayers(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
links: [{device: eth0, egress: 10mbit}]
defaults: {ingress: {weight: 2, max: 5mbit}}
workloads:
  web: {min: 1mbit, reserve: 2mbit, ingress: {reserve: 4mbit}}
`))
	if err != nil {
		t.Fatal(err)
	}
	p := c.LayerFor("web").Apply(c.Defaults.Apply(policy.Default()))
	in := p.In(policy.Ingress)
	if p.Reserve.Rate != 2e6 || p.Min.Rate != 1e6 || in.Weight != 2 || in.Max.Rate != 5e6 || in.Reserve.Rate != 4e6 || !in.Min.None() {
		t.Errorf("got %+v with ingress %+v", p, in)
	}
	if other := c.Defaults.Apply(policy.Default()).In(policy.Ingress); !other.Reserve.None() {
		t.Errorf("the layer of one workload changed the defaults: %+v", other)
	}
}

// TestZones: what the file says of zones, and the links that follow.
func TestZones(t *testing.T) {
	list := filepath.Join(t.TempDir(), "cdn.txt")
	if err := os.WriteFile(list, []byte("192.0.2.0/24\n2001:db8::/32 # and IPv6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("weir.yaml", []byte(`
links:
  - device: eth0
    egress: 950mbit
    ingress: 900mbit
    zones:
      wan: {egress: 95mbit, ingress: 200mbit}
      lan: {prefixes: [connected, 10.0.0.0/8]}
      cdn: {egress: 300mbit, prefixes_file: `+list+`}
  - device: eth1
    egress: 1gbit
    zones: {cdn: {ingress: 50mbit, prefixes: [192.0.2.7]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.Links {
		for _, end := range l.Ends() {
			text := fmt.Sprintf("%s %s aside=%v", end.Name(), end.Capacity(), end.Plan().Aside)
			if a := end.Area(); a != nil {
				text += fmt.Sprintf(" in=%d out=%d rest=%v bare=%v", len(a.In.List), len(a.Out.List), a.Rest, a.Bare)
			}
			got = append(got, text)
		}
	}
	want := []string{
		"eth0 950 Mbit/s aside=true",
		"eth0 ingress 700 Mbit/s aside=true in=8 out=0 rest=false bare=true",
		"eth0 wan 95 Mbit/s aside=false in=0 out=8 rest=true bare=false",
		"eth0 wan ingress 200 Mbit/s aside=false in=0 out=8 rest=true bare=false",
		"eth0 cdn 300 Mbit/s aside=true in=2 out=6 rest=false bare=false",
		"eth1 1 Gbit/s aside=false",
		"eth1 cdn ingress 50 Mbit/s aside=true in=1 out=0 rest=false bare=false",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPrefixFiles: what is wrong with a file of prefixes is said once, and one that is no regular
// file is not waited for.
func TestPrefixFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large := file("large.txt", "")
	if err := os.Truncate(large, mostPrefixBytes+1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{fifo, `"` + fifo + `" is no regular file; write one prefix a line into one, and name that`},
		{"/dev/zero", `"/dev/zero" is no regular file; write one prefix a line into one, and name that`},
		{dir, `"` + dir + `" is no regular file; write one prefix a line into one, and name that`},
		{large, `"` + large + `" is larger than 4 MB; bring the prefixes down, by shorter ones that hold several`},
		{file("wrong.txt", "# of the provider\n10.0.0.1/8\n"), `"10.0.0.1/8": line 2: bits are set behind the prefix; write 10.0.0.0/8, or the address alone`},
		{file("empty.txt", "# none\n"), `"` + filepath.Join(dir, "empty.txt") + `" has no prefix; write one a line into it, or leave prefixes_file out`},
	} {
		_, err := Parse("weir.yaml", []byte("links: [{device: eth0, egress: 1gbit, zones: {cdn: {egress: 300mbit, prefixes_file: "+c.path+"}}}]\n"))
		var wrong *Error
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Msg != c.want || wrong.Problems[0].Field != "links[0].zones.cdn.prefixes_file" {
			t.Errorf("%s: %v\nwant %s", c.path, err, c.want)
		}
	}
}

// TestForeignPrefixFiles are refused: they say whose traffic is whose.
func TestForeignPrefixFiles(t *testing.T) {
	safepathtest.Refused(t, func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "prefixes.txt")
		if err := os.WriteFile(path, []byte("192.0.2.0/24\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}, func(path string) error {
		_, err := Parse("weir.yaml", []byte("links: [{device: eth0, egress: 1gbit, zones: {cdn: {egress: 300mbit, prefixes_file: '"+path+"'}}}]\n"))
		return err
	})
}

// TestQuotaOfIngress: a quota of what is received, where no link counts that, is remarked.
func TestQuotaOfIngress(t *testing.T) {
	const remark = `weir.yaml:2:19: workloads.web.quota.ingress: "1GB": no link has an ingress, so that what is received is not counted; give a link an ingress rate, or take the ingress out of the quota`
	for _, c := range []struct{ links, quota, want string }{
		{"{device: eth0, egress: 1gbit}", "ingress 1GB egress 2GB per month then tell", remark},
		{"{device: eth0, egress: 1gbit}", "egress 2GB per month then tell", ""},
		{"{device: eth0, egress: 1gbit}", "total 2GB per month then tell", ""},
		{"{device: eth0, egress: 1gbit, ingress: 1gbit}", "ingress 1GB per month then tell", ""},
		{"{device: eth0, egress: 1gbit, zones: {cdn: {ingress: 50mbit, prefixes: [192.0.2.7]}}}", "ingress 1GB per month then tell", ""},
		{"", "ingress 1GB per month then tell", ""}, // the command line has the links
	} {
		got, err := Parse("weir.yaml", []byte("links: ["+c.links+"]\nworkloads: {web: {quota: "+c.quota+"}}\n"))
		if err != nil || strings.Join(got.Warnings, "\n") != c.want {
			t.Errorf("%s, %s: %v, remarks %q\nwant %q", c.links, c.quota, err, got.Warnings, c.want)
		}
	}
}

func TestMaskLeftToTheAgent(t *testing.T) {
	c, err := Parse("weir.yaml", []byte("links: []\nmark_mask: auto\n"))
	if err != nil || !c.MarkAuto || c.MarkMask != 0 {
		t.Errorf("%v, %#x, %v", c.MarkAuto, c.MarkMask, err)
	}
	if _, err := Parse("weir.yaml", []byte("links: []\nmark_mask: any\n")); err == nil || !strings.Contains(err.Error(), "auto") {
		t.Errorf("any: %v", err)
	}
}
