// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/face/server/page"
	"weir/internal/face/web"
)

// The inputs of the routes; huma reads the tags, and of embedded types only
// those that are exported.
type (
	// NameParam is the name of a workload in a route's path.
	NameParam struct {
		Name string `path:"name" maxLength:"320" doc:"name of a workload, or a prefix of its engine's id" example:"web"`
	}
	// DryRunParam asks for what would change.
	DryRunParam struct {
		DryRun bool `query:"dry_run" doc:"list the changes and make none"`
	}
	// GroupParam is the name of a group in a route's path.
	GroupParam struct {
		Name string `path:"name" maxLength:"128" doc:"name of a group" example:"tenant-b"`
	}
	// AllocationParam is the name of an allocation in a route's path.
	AllocationParam struct {
		Name string `path:"name" maxLength:"128" doc:"of the allocation" example:"5f3c0e4e-7c1b-4a53-9f0e-2f1d3a1c7f10"`
	}
	setInput struct {
		NameParam
		DryRunParam
		Body api.PolicyChange
	}
	attachInput struct {
		DryRunParam
		Body api.AttachRequest
	}
	detachInput struct {
		NameParam
		DryRunParam
	}
	classifyInput struct {
		NameParam
		api.Packet
	}
	setGroupInput struct {
		GroupParam
		DryRunParam
		Body api.GroupChange
	}
	deleteGroupInput struct {
		GroupParam
		DryRunParam
	}
	allocateInput struct {
		AllocationParam
		DryRunParam
		Body api.AllocationRequest
	}
	releaseInput struct {
		AllocationParam
		DryRunParam
	}
)

// Subject implements rest.BodySubject.
func (in *attachInput) Subject() string { return in.Body.Name }

// routes builds the whole interface.
func (s *Server) routes() *rest.API {
	h := rest.New("agent", "Weir", "Weight, min and max for the containers that share a host's uplink. "+
		"Rates are wire bits per second, lengths bytes, times UTC; egress is what leaves a workload (upload).", s.log)
	h.Audit, h.Bodies = s.opts.Audit, true
	mux := h.Mux

	rest.Get(h, "/v1/status", "status", "The agent and its links",
		func(ctx context.Context, _ *rest.None) (api.Status, error) {
			st, err := s.agent.Status(ctx)
			return wholeStatus(st), err
		})
	rest.Get(h, "/v1/workloads", "list-workloads", "Every workload with its policy and its traffic",
		func(ctx context.Context, _ *rest.None) ([]api.Workload, error) {
			ws, err := s.agent.Workloads(ctx)
			return wholeWorkloads(ws), err
		})
	rest.Get(h, "/v1/workloads/{name}", "get-workload", "One workload",
		func(ctx context.Context, in *NameParam) (api.Workload, error) {
			w, err := s.agent.Workload(ctx, in.Name)
			return wholeWorkload(w), err
		})
	rest.Get(h, "/v1/workloads/{name}/explain", "explain-workload", "Why a workload has the rate it has",
		func(ctx context.Context, in *NameParam) (api.Explanation, error) {
			e, err := s.agent.Explain(ctx, in.Name)
			return wholeExplanation(e), err
		})
	rest.Get(h, "/v1/workloads/{name}/classify", "classify-packet", "Which queue of a workload a packet belongs to, and by which rule",
		func(ctx context.Context, in *classifyInput) (api.Placement, error) {
			return s.agent.Classify(ctx, in.Name, in.Packet)
		})
	rest.Get(h, "/v1/groups", "list-groups", "Every group of workloads with its policy and its members' traffic",
		func(ctx context.Context, _ *rest.None) ([]api.Group, error) {
			gs, err := s.agent.Groups(ctx)
			return list(gs, wholeGroup), err
		})
	rest.Get(h, "/v1/groups/{name}", "get-group", "One group of workloads",
		func(ctx context.Context, in *GroupParam) (api.Group, error) {
			g, err := s.agent.Group(ctx, in.Name)
			return wholeGroup(g), err
		})
	rest.Get(h, "/v1/groups/{name}/explain", "explain-group", "Why a group of workloads has the rate it has",
		func(ctx context.Context, in *GroupParam) (api.Explanation, error) {
			e, err := s.agent.ExplainGroup(ctx, in.Name)
			return wholeExplanation(e), err
		})
	rest.Get(h, "/v1/allocations", "list-allocations", "Every min that is set aside for pods",
		func(ctx context.Context, _ *rest.None) ([]api.Allocation, error) {
			as, err := s.agent.Allocations(ctx)
			return list(as, wholeAllocation), err
		})
	reads := rest.NewReads()
	rest.Get(h, "/v1/usage", "usage", "How much each workload, group and link has sent and received",
		func(ctx context.Context, in *api.UsageQuery) (api.Usage, error) {
			leave, err := reads.Enter(ctx, h.Author(ctx))
			if err != nil {
				return api.Usage{}, err
			}
			defer leave()
			u, err := s.agent.Usage(ctx, *in)
			u.Rows = rest.Filled(u.Rows)
			return u, err
		})
	rest.Get(h, "/v1/events", "events", "Which conditions hold that an operator should know of, and which began and ended of late",
		func(ctx context.Context, in *api.EventQuery) (api.Events, error) {
			e, err := s.agent.Events(ctx, *in)
			e.Open, e.Recent = rest.Filled(e.Open), rest.Filled(e.Recent)
			return e, err
		})
	rest.Get(h, "/v1/divide", "divide", "How a link with these workloads would be divided; nothing of the host counts",
		func(_ context.Context, in *api.DivisionQuery) (api.Division, error) { return in.Divide() })
	s.changes(h)
	s.allocationChanges(h)
	s.control(h)
	s.groupChanges(h)
	s.stream(h)
	s.page = page.New(h, page.Options{Config: s.opts.Web, Program: web.Agent, Socket: s.opts.Socket, Group: s.opts.Group, ViewGroup: s.opts.ViewGroup})
	h.ServeAudit()
	describeEvents(h.OpenAPI().Components.Schemas)

	metrics := huma.Operation{
		OperationID: "metrics", Method: http.MethodGet, Path: "/metrics",
		Summary: "Prometheus metrics, listed in docs/metrics.md",
		Responses: map[string]*huma.Response{"200": {
			Description: "OK",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}
	h.Route(&metrics)
	h.OpenAPI().AddOperation(&metrics)
	mux.Handle("GET /metrics", s.metricsHandler(h))
	mux.HandleFunc("/", rest.Fallback(mux))
	return h
}

// changes registers the routes that change something; each takes dry_run.
func (s *Server) changes(h *rest.API) {
	rest.Register(h, huma.Operation{
		Method: http.MethodPatch, Path: "/v1/workloads/{name}/policy", OperationID: "set-policy",
		Summary:     "Change a workload's policy while it runs",
		Description: "Only the fields that are given change. The change outlives restarts of the workload and of the agent.",
	}, func(ctx context.Context, in *setInput) (api.ChangeResult, error) {
		r, err := s.agent.Set(ctx, in.Name, in.Body, in.DryRun)
		return wholeResult(r), err
	})
	rest.Register(h, huma.Operation{
		Method: http.MethodPost, Path: "/v1/workloads", OperationID: "attach-workload",
		Summary: "Make a workload of a network namespace, a device, units or a cgroup",
	}, func(ctx context.Context, in *attachInput) (api.ChangeResult, error) {
		r, err := s.agent.Attach(ctx, in.Body, in.DryRun)
		return wholeResult(r), err
	})
	rest.Register(h, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/workloads/{name}", OperationID: "detach-workload",
		Summary: "Let go of a workload that was attached",
	}, func(ctx context.Context, in *detachInput) (api.ChangeResult, error) {
		r, err := s.agent.Detach(ctx, in.Name, in.DryRun)
		return wholeResult(r), err
	})
}

// groupChanges registers the routes that change groups; each takes dry_run.
func (s *Server) groupChanges(h *rest.API) {
	rest.Register(h, huma.Operation{
		Method: http.MethodPatch, Path: "/v1/groups/{name}", OperationID: "set-group",
		Summary:     "Make a group of workloads, or change its policy",
		Description: "Only the fields that are given change. The change outlives restarts of the agent. Workloads are put into a group by their own policy.",
	}, func(ctx context.Context, in *setGroupInput) (api.ChangeResult, error) {
		r, err := s.agent.SetGroup(ctx, in.Name, in.Body, in.DryRun)
		return wholeResult(r), err
	})
	rest.Register(h, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/groups/{name}", OperationID: "delete-group",
		Summary: "Remove a group without members",
	}, func(ctx context.Context, in *deleteGroupInput) (api.ChangeResult, error) {
		r, err := s.agent.DeleteGroup(ctx, in.Name, in.DryRun)
		return wholeResult(r), err
	})
}

// allocationChanges registers the routes that change allocations; each takes dry_run.
func (s *Server) allocationChanges(h *rest.API) {
	rest.Register(h, huma.Operation{
		Method: http.MethodPut, Path: "/v1/allocations/{name}", OperationID: "allocate",
		Summary:     "Set a min aside for pods, or change that",
		Description: "It is admitted whether the pods are there or not, and outlives restarts of the agent. The same request again changes nothing.",
	}, func(ctx context.Context, in *allocateInput) (api.ChangeResult, error) {
		r, err := s.agent.Allocate(ctx, in.Name, in.Body, in.DryRun)
		return wholeResult(r), err
	})
	rest.Register(h, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/allocations/{name}", OperationID: "release",
		Summary: "Give an allocation back",
	}, func(ctx context.Context, in *releaseInput) (api.ChangeResult, error) {
		r, err := s.agent.Release(ctx, in.Name, in.DryRun)
		return wholeResult(r), err
	})
}
