// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
)

type (
	controlInput struct {
		NameParam
		DryRunParam
		Body api.ControlChange
	}
	tuneInput struct {
		NameParam
		Body api.TuneRequest
	}
)

// control registers the routes of reservations.
func (s *Server) control(h *rest.API) {
	rest.Get(h, "/v1/workloads/{name}/control", "get-control", "Show the controllers of a workload's reservations",
		func(ctx context.Context, in *NameParam) (api.Control, error) {
			c, err := s.agent.Control(ctx, in.Name)
			return wholeControl(c), err
		})
	rest.Get(h, "/v1/workloads/{name}/flows", "get-flows", "The payload of each connection of a workload with a reservation, measured for a second",
		func(ctx context.Context, in *NameParam) (api.Flows, error) {
			f, err := s.agent.Flows(ctx, in.Name)
			f.Flows = rest.Filled(f.Flows)
			return f, err
		})
	rest.Register(h, huma.Operation{
		Method: http.MethodPatch, Path: "/v1/workloads/{name}/control", OperationID: "set-control",
		Summary:     "Freeze the controllers of a workload's reservations, or change their gains",
		Description: "The change outlives restarts of the workload and of the agent. Gains with which no loop is stable are refused unless force is given.",
	}, func(ctx context.Context, in *controlInput) (api.Control, error) {
		c, err := s.agent.SetControl(ctx, in.Name, in.Body, in.DryRun)
		return wholeControl(c), err
	})
	rest.Register(h, huma.Operation{
		Method: http.MethodPost, Path: "/v1/workloads/{name}/tune", OperationID: "tune",
		Summary:     "Measure how a workload's goodput answers, and suggest gains",
		Description: "Takes about a quarter of a minute, in which the workload's rate is changed by a tenth.",
	}, func(ctx context.Context, in *tuneInput) (api.TuneResult, error) {
		r, err := s.agent.Tune(ctx, in.Name, in.Body)
		r.Points = rest.Filled(r.Points)
		return r, err
	})
}

func wholeControl(c api.Control) api.Control {
	c.Loops = list(c.Loops, func(l api.ControlLoop) api.ControlLoop {
		l.HistoryBps = rest.Filled(l.HistoryBps)
		return l
	})
	return c
}
