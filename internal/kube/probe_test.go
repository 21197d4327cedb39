// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestProbes: the probe of readiness says what is missing, that of liveness stays good without an
// agent, and both fail when the process is gone.
func TestProbes(t *testing.T) {
	b := newBed(t, "")
	b.probes = filepath.Join(b.dir, "probe.sock")
	probe := func(which string) string { return fmt.Sprint(askProbe(t.Context(), b.probes, which)) }
	if got := probe(probeReady); !strings.HasPrefix(got, "not ready: dial unix "+b.probes) {
		t.Errorf("before the start: %s", got)
	}
	stop := b.plugin()
	b.until("it is ready", func() bool { return probe(probeReady) == "<nil>" })
	b.stopAgent()
	const noAgent = "not ready: the agent does not answer; see --socket"
	b.until("it says that the agent is gone", func() bool { return probe(probeReady) == noAgent })
	if got := probe(probeLive); got != "<nil>" {
		t.Errorf("without an agent: %s", got)
	}
	b.startAgent()
	b.until("it is ready again", func() bool { return probe(probeReady) == "<nil>" })
	stop()
	if got := probe(probeLive); !strings.HasPrefix(got, "not live: dial unix") {
		t.Errorf("after the end: %s", got)
	}
}

// sound is a node that lacks nothing.
type sound struct{}

func (sound) Ready() error { return nil }
func (sound) Live() error  { return nil }

// TestProbeAsksForClaims: a driver that kubelet has not taken is not ready.
func TestProbeAsksForClaims(t *testing.T) {
	o := &options{claims: func(context.Context) error { return nil }}
	ready := o.checks(sound{})[probeReady]
	if got, want := fmt.Sprint(ready()), "kubelet has not taken the DRA driver; see --kubelet-dir"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o.registered.Store(true)
	if err := ready(); err != nil {
		t.Error(err)
	}
}
