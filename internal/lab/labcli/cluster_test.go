// SPDX-License-Identifier: Apache-2.0

package labcli

import (
	"bytes"
	"errors"
	"testing"

	"weir/internal/face/cli/frame"
	"weir/internal/lab"
	"weir/internal/lab/cluster"
)

// The files after one that cannot be run are run, and the exit code is that of the worst.
func TestAClusterThatFailsLeavesTheOthersTheirResults(t *testing.T) {
	var out, errs bytes.Buffer
	a := app{frame.Streams{Stdout: &out, Stderr: &errs}}
	specs := []cluster.Spec{{Name: "first"}, {Name: "second"}, {Name: "third"}}
	var ran []string
	code, err := a.eachCluster(t.Context(), specs, false, func(s cluster.Spec) ([]cluster.Failure, error) {
		ran = append(ran, s.Name)
		switch s.Name {
		case "first":
			return nil, errors.New("no engine")
		case "second":
			return []cluster.Failure{{Subject: "web", What: "lost a packet"}}, nil
		}
		return nil, nil
	})
	if code != lab.ExitBroken || err == nil || err.Error() != "first: no engine" {
		t.Errorf("exit code %d, %v", code, err)
	}
	if len(ran) != 3 || out.String() != "== first\n== second\n== third\n" || errs.String() != "weir: web: lost a packet\n" {
		t.Errorf("ran %q, wrote %q, said %q", ran, out.String(), errs.String())
	}
}
