// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/kube/decide"
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

// TestOneFailureKeepsNoOthersWaiting: a pod that the agent could not attach fails the pass, after
// the pods behind it were attached. An agent that is away ends the pass at once.
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

// TestAnnotationsThatChangeAllTheTime: what the author of a pod says anew, without end, asks the
// agent for a bounded number of changes, each of which is a line of its audit log; the last word
// counts in the end, and other namespaces wait for none of it.
func TestAnnotationsThatChangeAllTheTime(t *testing.T) {
	n := New(Options{})
	meta := func(namespace string, weight int) Meta {
		return Meta{Namespace: namespace, Name: "a", UID: namespace, Annotations: map[string]string{"weir.dev/weight": strconv.Itoa(weight)}}
	}
	learn := func(now time.Time) {
		for _, c := range n.waiting() {
			c.learn()
		}
		n.learnLate(now)
	}
	heard, last := 0, ""
	for i := range 10_000 {
		n.SetPod(meta("shop", 1+i))
		learn(time.Now())
		if is := n.metas["shop/a"].Annotations["weir.dev/weight"]; is != last {
			heard, last = heard+1, is
		}
	}
	if heard < 2 || heard > changesAtOnce+10 {
		t.Errorf("%d of 10000 changes were heard", heard)
	}
	n.SetPod(meta("other", 1))
	n.SetPod(meta("other", 7))
	learn(time.Now())
	if is := n.metas["other/a"].Annotations["weir.dev/weight"]; is != "7" {
		t.Errorf("another namespace has %q", is)
	}
	learn(time.Now().Add(changeEvery))
	if is := n.metas["shop/a"].Annotations["weir.dev/weight"]; is != "10000" || len(n.late) > 0 {
		t.Errorf("in the end it is %q, %d late", is, len(n.late))
	}
	for i := range 2 * changesAtOnce {
		n.SetPod(meta("shop", i))
	}
	n.DeletePod(meta("shop", 0))
	learn(time.Now())
	if len(n.late) > 0 {
		t.Error("a pod that is gone is late")
	}
}
