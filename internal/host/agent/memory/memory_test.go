// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/discover"
)

func TestStore(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	write := func(t *testing.T, text string) *StateFile {
		s := NewFile(t.TempDir())
		if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, text := range map[string]string{
		"cut short":     `{"version": 1, "set": {"docker:web": {"wei`,
		"other version": `{"version": 2}`,
		"bad setting":   `{"version": 1, "set": {"docker:web": {"weight": 0}}}`,
		"empty":         "",
		"not JSON":      "\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s := write(t, text)
			k, err := s.Load(log)
			if err != nil || len(k.Set) != 0 {
				t.Fatalf("got %+v, %v", k, err)
			}
			aside, err := os.ReadFile(s.path + ".damaged")
			if err != nil || string(aside) != text {
				t.Errorf("not moved aside: %q, %v", aside, err)
			}
		})
	}
	t.Run("round trip", func(t *testing.T) {
		s := NewFile(filepath.Join(t.TempDir(), "deep", "down"))
		want := Saved{
			Set:     map[string]policy.Change{"docker:web": policy.MustChange("weight", "3", "min", "none", "max", "20mbit")},
			Numbers: map[string]plan.ClassID{"docker:web": 7},
			Grants:  map[string][]decide.AdmittedMin{"eth0": {{Key: "docker:web", Min: 5e6}}},
			Seen:    map[string][]Workload{"docker": {{Key: "docker:web", Name: "web", Devices: []Device{{Name: "veth1", Ifindex: 4}, {Name: "veth2", Ifindex: 5}}}}},
		}
		if err := s.Save(want); err != nil {
			t.Fatal(err)
		}
		got, err := NewFile(filepath.Dir(s.path)).Load(log)
		want.Version = stateVersion
		if fmt.Sprint(got.Numbers, got.Grants, got.Seen) != fmt.Sprint(want.Numbers, want.Grants, want.Seen) || err != nil {
			t.Errorf("got %+v, want %+v, %v", got, want, err)
		}
		if layer := got.Set["docker:web"]; !reflect.DeepEqual(layer, want.Set["docker:web"]) {
			t.Errorf("layer %+v", layer)
		}
		w := got.Seen["docker"][0].Found(func(name string, ifindex int) bool { return name == "veth2" && ifindex == 5 })
		if len(w.Devices) != 1 || w.Devices[0].Name != "veth2" {
			t.Errorf("devices %+v", w.Devices)
		}
	})
	t.Run("unwritable", func(t *testing.T) {
		s := NewFile("/proc/nowhere")
		if err := s.Save(Saved{}); err == nil {
			t.Error("no error")
		}
	})
}

// An agent that starts anew believes in the cgroups that the one before saw, and knows which
// labels come with the image.
func TestCgroupsAreKept(t *testing.T) {
	w := discover.Workload{Key: "unit:web", Name: "web", Kind: "unit", Group: "shop", Cgroups: []string{"/cgroup2/web"},
		ImageLabels: map[string]string{"weir.weight": "1000", "weir.min": "50mbit", "weir.max": "70mbit"}}
	got := keepWorkload(w).Found(func(string, int) bool { return true })
	if got.Group != "shop" || !slices.Equal(got.Cgroups, w.Cgroups) || !maps.Equal(got.ImageLabels, w.ImageLabels) {
		t.Errorf("%+v", got)
	}
}

// What an agent kept of annotations before it told them from what operators set is asked for, and
// what operators set of the rest stays.
func TestAnnotationsOfFormerVersions(t *testing.T) {
	for text, want := range map[string]string{
		`{"version": 1, "set": {"pod:shop/web": {"max": "none"}, "docker:db": {"weight": 3}}, "groups": {"ns.shop": {"weight": 9}, "office": {}}}`: "pod:shop/web ns.shop docker:db office",
		`{"version": 1, "set": {"pod:shop/web": {"max": "none"}}, "asked": {}}`:                                                                    "  pod:shop/web ",
	} {
		k, err := decode([]byte(text))
		keys := func(m map[string]policy.Change) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }
		w := k.World(config.Config{})
		if got := strings.Join([]string{keys(w.Asked), keys(w.AskedGroups), keys(w.Set), keys(w.Groups)}, " "); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
		if again, err := decode(mustJSON(t, Of(w, nil))); err != nil || !maps.Equal(texts(again.Asked), texts(k.Asked)) || !maps.Equal(texts(again.AskedGroups), texts(k.AskedGroups)) {
			t.Errorf("kept as %+v, %v", again, err)
		}
	}
}

func texts(layers map[string]policy.Change) map[string]string {
	m := map[string]string{}
	for key, c := range layers {
		m[key] = fmt.Sprint(c.Texts())
	}
	return m
}

func mustJSON(t *testing.T, k Saved) []byte {
	t.Helper()
	k.Version = stateVersion
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A state.json of before policy.Change, with each of its fields, is read as it was meant, and
// so is one of a version that knows more fields.
func TestStateOfOtherVersions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "state-before-the-table.json"))
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(text), `"weight": 3,`, `"weight": 3, "colour": "blue",`, 1)
	want := apitest.Change("weight", "3", "min", "none", "max", "20mbit", "reserve", "10mbit", "limit_packets", "100", "limit_bytes", "30000",
		"discipline", "llq", "queues", `voice: {rate: 1mbit, match: [{udp: 5001}, {tcp: [80, 8000-8010]}], dscp: ef, limit_packets: 50}
rest: {min: 1mbit, reserve: 2mbit}`, "aqm", "default", "dscp", "none", "group", "none",
		"ingress.weight", "2", "ingress.max", "50%", "ingress.discipline", "sfq", "ingress.queues", "none").Change
	for name, text := range map[string]string{"before": string(text), "newer": newer} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := NewFile(dir).Load(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		got := k.Set["docker:web"]
		if !maps.Equal(got.Texts(), want.Texts()) || got.Readable() != nil {
			t.Errorf("%s: %v, %v\nwant %v", name, got.Texts(), got.Readable(), want.Texts())
		}
		if office := k.Groups["office"]; !maps.Equal(office.Texts(), map[string]string{"weight": "2", "max": "40mbit"}) {
			t.Errorf("%s: group %v", name, office.Texts())
		}
	}
}
