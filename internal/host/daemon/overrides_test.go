// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/host/agent"
)

func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFromConfigRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.yaml")
	for _, test := range []struct {
		name  string
		path  string
		flags Overrides
		words []string
	}{
		{"no file", none, Overrides{}, []string{none, "does not exist", "--link"}},
		{"no capacity", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}}, []string{"link.egress", "100mbit"}},
		{"bad capacity", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "100mbps"}, []string{"link.egress", `"100mbps"`, "800mbit"}},
		{"capacity of nothing", "", Overrides{Egress: "100mbit"}, []string{"link.device"}},
		{"bad device", "", Overrides{Links: []LinkOverride{{Device: "a/b"}}, Egress: "1mbit"}, []string{"link.device", `"a/b"`}},
		{"bad scheduler", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Scheduler: "fare"}, []string{"link.scheduler", `"fare"`, "fair, qcon, ancs"}},
		{"bad favour", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Favour: "speed"}, []string{"link.favour", `"speed"`, "neither, latency, cpu"}},
		{"favour of another scheduler", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Favour: "cpu", Scheduler: "qcon"}, []string{"link.favour", `"cpu"`, "only the scheduler fair"}},
		{"favour of no device", "", Overrides{Favour: "cpu"}, []string{"link.device", "--favour"}},
		{"bad backend", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Backend: "ebpf"}, []string{"backend", `"ebpf"`, "auto, bpf or tc"}},
		{"bad address", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Metrics: []string{"9469"}}, []string{"metrics.listen", "host:port"}},
		{"metrics in clear on every address", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Metrics: []string{":9469"}}, []string{"metrics.listen", "not on the loopback", "tls: {cert:"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := FromConfig(test.path, test.flags, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// TestOverrides: the command line counts over the file.
func TestOverrides(t *testing.T) {
	c := parse(t, "links: [{device: eth0, egress: 100mbit, reservable: 50%}, {device: eth1, egress: 1gbit}]")
	got, err := Overrides{Links: []LinkOverride{{Device: "eth0"}}, Scheduler: "qcon", Force: true, Docker: new(false), StateDir: "/x", Socket: "/y", Backend: "tc", Metrics: []string{"[::1]:1"}}.over(c)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Link{Device: "eth0", Egress: 100e6, Reservable: 0.5, Scheduler: "qcon", Force: true}
	if len(got.Links) != 1 || !reflect.DeepEqual(got.Links[0], want) || got.Docker.Enabled || got.StateDir != "/x" || got.Socket != "/y" || got.Backend != "tc" || !slices.Equal(got.Metrics.Listen, []string{"[::1]:1"}) {
		t.Errorf("got %+v", got)
	}
	several, err := Overrides{Links: []LinkOverride{{"eth1", ""}, {"eth2", ""}, {"eth0", "5mbit"}}, Egress: "50mbit"}.over(c)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, l := range several.Links {
		links = append(links, fmt.Sprint(l.Device, " ", l.Egress, " ", l.Reservable))
	}
	if got, want := strings.Join(links, ", "), "eth1 50 Mbit/s 1, eth2 50 Mbit/s 1, eth0 5 Mbit/s 0.5"; got != want {
		t.Errorf("links %s, want %s", got, want)
	}
	if same, err := (Overrides{}).over(c); err != nil || len(same.Links) != 2 {
		t.Errorf("no overrides: %+v, %v", same, err)
	}
	if _, err := (Overrides{Force: true}).over(c); err == nil || errors.Is(err, agent.ErrNoLink) {
		t.Errorf("--force without --link: %v", err)
	}
}

func TestIngressFlags(t *testing.T) {
	file := parse(t, "links: [{device: eth0, egress: 20mbit, ingress: 100mbit}]")
	for _, tt := range []struct {
		name string
		over Overrides
		want string // the names and capacities of the links
	}{
		{"file", Overrides{Links: []LinkOverride{{Device: "eth0"}}}, "eth0 20000000, eth0 ingress 100000000"},
		{"flag", Overrides{Links: []LinkOverride{{Device: "eth0"}}, Ingress: "50mbit", Local: true}, "eth0 20000000, eth0 ingress 50000000"},
		{"none", Overrides{Links: []LinkOverride{{Device: "eth0"}}, Ingress: "none"}, "eth0 20000000"},
		{"local without ingress", Overrides{Links: []LinkOverride{{Device: "eth1", Egress: "1mbit"}}, Local: true}, "link.ingress: is missing"},
		{"no rate", Overrides{Links: []LinkOverride{{Device: "eth0"}}, Ingress: "much"}, "link.ingress: "},
		{"no link", Overrides{Ingress: "5mbit"}, "link.device: is missing"},
	} {
		c, err := tt.over.over(file)
		got := ends(c)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// ends lists the links with their capacities, each direction by itself.
func ends(c config.Config) string {
	var list []string
	for _, l := range c.Links {
		list = append(list, fmt.Sprint(l.Device, " ", uint64(l.Egress)))
		if l.Ingress > 0 {
			list = append(list, fmt.Sprint(l.Device, " ingress ", uint64(l.Ingress)))
		}
	}
	return strings.Join(list, ", ")
}
