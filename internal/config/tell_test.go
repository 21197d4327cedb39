// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/core/event"
	"weir/internal/core/policy"
)

func TestTell(t *testing.T) {
	for text, want := range map[string]Tell{
		"{}":                  DefaultTell(),
		"{drops: off}":        {Drops: event.Bounds{}},
		"{drops: 25%}":        {Drops: event.Bounds{Any: 0.25}},
		"{drops: {aqm: 20%}}": {Drops: event.Bounds{Any: 0.1, ByReason: map[string]float64{"aqm": 0.2}}},
		"{drops: {any: off, aqm: 5%, policed: off}}": {Drops: event.Bounds{ByReason: map[string]float64{"aqm": 0.05, "policed": 0}}},
		"{events: []}":                                             {Events: []string{}, Drops: event.DefaultBounds},
		"{events: [drops, link-gone]}":                             {Events: []string{"drops", "link-gone"}, Drops: event.DefaultBounds},
		"{command: {run: [/bin/true]}}":                            {Drops: event.DefaultBounds, Command: Command{Run: []string{"/bin/true"}}},
		"{webhook: {url: 'http://127.0.0.1:8080/x', timeout: 3s}}": {Drops: event.DefaultBounds, Webhook: Webhook{URL: "http://127.0.0.1:8080/x", Timeout: 3 * time.Second}},
		"{webhook: {url: 'https://[2001:db8::1]/x?y=z', secret_file: /s, ca: /c}}": {Drops: event.DefaultBounds,
			Webhook: Webhook{URL: "https://[2001:db8::1]/x?y=z", SecretFile: "/s", CA: "/c"}},
	} {
		if want.Webhook.Timeout == 0 {
			want.Webhook.Timeout = 10 * time.Second
		}
		want.Command.Timeout = 30 * time.Second
		c, err := Parse("weir.yaml", []byte("tell: "+text))
		if err != nil || !reflect.DeepEqual(c.Tell, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, c.Tell, err, want)
		}
	}
}

// TestWebhookAddresses: an address with a secret in it is not printed whole.
func TestWebhookAddresses(t *testing.T) {
	for address, problem := range map[string]string{
		"http://10.0.0.1/T0K3N":           "without TLS every host on the path",
		"http://localhost.example/T0K3N":  "without TLS every host on the path",
		"https://me:T0K3N@example.org/":   "has a user or a password",
		"ftp://example.org/T0K3N":         "neither https nor http",
		"example.org/T0K3N":               "is no address",
		"https:///T0K3N":                  "is no address",
		"https://:443/T0K3N":              "is no address",
		"https://example.org/\x01T0K3N":   "is no address",
		"https://example.org/#T0K3N":      "has a fragment",
		"https:example.org":               "is no address",
		"https://exa mple.org/T0K3N":      "is no address",
		"https://example.org:99999/T0K3N": "has a port that there is not",
		"https://example.org:0/T0K3N":     "has a port that there is not",
		"HTTP://192.0.2.1:80/hook/T0K3N/": "without TLS every host on the path",
	} {
		err := checkWebhook(address)
		if err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "T0K3N") {
			t.Errorf("%s: %v, want %q and no secret", address, err, problem)
		}
	}
	for _, address := range []string{"https://example.org", "http://localhost:9/x", "http://[::1]:80/", "https://10.0.0.1:8443/a?b=c"} {
		if err := checkWebhook(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestLabelsCannotTell: what is told to whom is nothing that a policy could say, so neither a
// label, an annotation nor weir set can.
func TestLabelsCannotTell(t *testing.T) {
	tell := Default().Tell
	for _, name := range policy.AllNames() {
		if slices.Contains([]string{"tell", "webhook", "command", "events"}, name) {
			t.Errorf("policies have a field %s", name)
		}
	}
	c, err := Parse("weir.yaml", []byte("defaults: {tell: {command: {run: [/bin/true]}}}"))
	if err == nil || !reflect.DeepEqual(c.Tell, tell) {
		t.Errorf("%v, %+v", err, c.Tell)
	}
}

// TestDropReasons: the reasons that tell.drops takes are those that the kernel side counts.
func TestDropReasons(t *testing.T) {
	header, err := os.ReadFile("../../bpf/weir.h")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)enum weir_drop \{(.*?)WEIR_DROP_REASONS`).FindSubmatch(header)
	if list == nil {
		t.Fatal("bpf/weir.h has no enum weir_drop")
	}
	var counted []string
	for _, m := range regexp.MustCompile(`WEIR_DROP_([A-Z_]+),`).FindAllSubmatch(list[1], -1) {
		if reason := strings.ToLower(string(m[1])); reason != "reset" {
			counted = append(counted, reason)
		}
	}
	want := slices.Sorted(slices.Values(counted))
	if got := slices.Sorted(slices.Values(event.DropReasons)); !slices.Equal(got, want) {
		t.Errorf("event.DropReasons has %v, bpf/weir.h %v", got, want)
	}
}
