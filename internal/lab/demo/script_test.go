// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/core/policy"
)

func TestPromises(t *testing.T) {
	s := script(8*time.Second, time.Second)
	for phase, want := range [][]float64{
		{100. / 6, 200. / 6, 300. / 6},
		{30, 28, 42},
		{30, 55, 15},
	} {
		var sum float64
		for w, bps := range promised(s, phase) {
			sum += bps
			if math.Abs(bps/1e6-want[w]) > 1e-6 {
				t.Errorf("phase %d: %s is promised %g Mbit/s, want %g", phase+1, s.Workloads[w].Name, bps/1e6, want[w])
			}
		}
		if math.Abs(sum-float64(capacity)) > 1 {
			t.Errorf("phase %d: the promises add up to %g bit/s, and the link is never idle", phase+1, sum)
		}
	}
	if len(acts) != len(s.Phases) {
		t.Errorf("%d phases, and a text for %d", len(s.Phases), len(acts))
	}
}

func TestCommands(t *testing.T) {
	s := script(8*time.Second, time.Second)
	var got []string
	for _, phase := range s.Phases {
		for _, change := range phase.Set {
			got = append(got, strings.Join(command(s, change), " "))
		}
	}
	want := "set camera --min 30mbit\nset backup --max 15mbit"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	var weight uint32 = 7
	change := s.Phases[1].Set[0]
	change.Weight = &weight
	if got := strings.Join(command(s, change), " "); got != "set camera --weight 7 --min 30mbit" {
		t.Errorf("with a weight: %s", got)
	}
}

// The agent has to understand the configuration, and to keep to the folder.
func TestConfiguration(t *testing.T) {
	for name, socket := range map[string]string{"containers": "/run/x/docker.sock", "namespaces": ""} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Parse("weir.yaml", []byte(configuration("/run/x", socket)))
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Links) != 1 || c.Links[0].Device != uplink || c.Links[0].Egress != policy.Rate(capacity) {
				t.Errorf("links %+v", c.Links)
			}
			if c.Docker.Enabled != (socket != "") || socket != "" && c.Docker.Socket != socket {
				t.Errorf("docker %+v", c.Docker)
			}
			if c.Socket != "/run/x/weir.sock" || c.StateDir != "/run/x/state" {
				t.Errorf("socket %s, state %s: not in the folder", c.Socket, c.StateDir)
			}
		})
	}
}
