// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"weir/internal/api"
	"weir/internal/kubernetes/decide"
	"weir/internal/refusal"
)

// failing is an agent that cannot attach some pods.
type failing struct {
	Agent
	attached []string
	errs     map[string]error
}

func (f *failing) Status(context.Context) (api.Status, error)        { return api.Status{}, nil }
func (f *failing) Workloads(context.Context) ([]api.Workload, error) { return nil, nil }
func (f *failing) Groups(context.Context) ([]api.Group, error)       { return nil, nil }
func (f *failing) Attach(_ context.Context, r api.AttachRequest, _ bool) (api.ChangeResult, error) {
	if err := f.errs[r.Name]; err != nil {
		return api.ChangeResult{}, err
	}
	f.attached = append(f.attached, r.Name)
	return api.ChangeResult{}, nil
}

// TestOneFailureKeepsNoOthersWaiting: a pod that the agent could not attach fails the pass, after the
// pods behind it were attached. An agent that is away ends the pass at once.
func TestOneFailureKeepsNoOthersWaiting(t *testing.T) {
	failed := &refusal.Error{Kind: refusal.Failed, Msg: "change not made"}
	away := errors.New("connection refused")
	for _, tt := range []struct {
		err  error
		want []string
	}{{failed, []string{"shop/a", "shop/c"}}, {away, []string{"shop/a"}}} {
		agent := &failing{errs: map[string]error{"shop/b": tt.err}}
		n := New(Options{Agent: agent, Log: slog.New(slog.DiscardHandler), Events: func(decide.Ref, string, string) {}})
		for _, name := range []string{"a", "b", "c"} {
			n.sandboxes["shop/"+name] = sandbox{Pod: decide.Pod{Namespace: "shop", Name: name, Sandbox: name}}
		}
		n.listed, n.known = true, true
		if err := n.reconcile(t.Context()); !errors.Is(err, tt.err) || !slices.Equal(agent.attached, tt.want) {
			t.Errorf("attached %q, %v, want %q", agent.attached, err, tt.want)
		}
	}
}
