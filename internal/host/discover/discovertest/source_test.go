// SPDX-License-Identifier: Apache-2.0

package discovertest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

var _ discover.Source = (*Source)(nil)

func TestSourceReportsWhatItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := New("docker")
		ctx, cancel := context.WithCancel(t.Context())
		var got [][]discover.Workload
		var ended error
		go func() { ended = src.Run(ctx, func(list []discover.Workload) { got = append(got, list) }) }()
		synctest.Wait()
		src.Set(discover.Workload{Key: "docker:web"})
		synctest.Wait()
		src.Set()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(got) != 3 || len(got[0]) != 0 || len(got[1]) != 1 || got[1][0].Key != "docker:web" || len(got[2]) != 0 {
			t.Errorf("reported %v, want none, docker:web, none", got)
		}
		if !errors.Is(ended, context.Canceled) {
			t.Errorf("ended with %v", ended)
		}
	})
}

func TestStatus(t *testing.T) {
	src := New("docker")
	if state, note := src.Status(); state != workload.SourceOK || note != "" {
		t.Errorf("at first %q %q", state, note)
	}
	src.SetStatus(workload.SourceUnavailable, "gone")
	if state, note := src.Status(); state != workload.SourceUnavailable || note != "gone" {
		t.Errorf("then %q %q", state, note)
	}
}
