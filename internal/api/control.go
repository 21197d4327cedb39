// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
)

// Control is the state of a workload's controllers: one for each reservation of the
// workload or of one of its queues, on each link.
type Control struct {
	Name  string        `json:"name"`
	Loops []ControlLoop `json:"loops"`
}

// ControlLoop is one controller with its figures of the last second.
type ControlLoop struct {
	Device     string    `json:"device"`
	Direction  string    `json:"direction" enum:"egress,ingress"`
	Queue      string    `json:"queue,omitempty" doc:"empty if the whole workload is held"`
	TargetBps  float64   `json:"target_bps" doc:"the reservation, bits per second of payload"`
	GoodputBps *float64  `json:"goodput_bps,omitempty" doc:"payload delivered, bits per second; missing if it is not measured"`
	ErrorBps   *float64  `json:"error_bps,omitempty" doc:"target less goodput"`
	WireBps    float64   `json:"wire_bps" doc:"at which packets are let go, bits per second on the wire"`
	IntervalNs float64   `json:"interval_ns" doc:"the same: ns for each byte on the wire"`
	OfferedBps float64   `json:"offered_bps" doc:"rate that the workload offers on the wire, averaged by the limiter"`
	Limiter    string    `json:"limiter" enum:"on,off" doc:"off: demand is below the reservation and the controller does not act"`
	Mode       string    `json:"mode" enum:"moving,settled,bounded,limited,waiting,unmeasured,frozen,open"`
	Why        string    `json:"why" doc:"why the interval holds or moves"`
	Frozen     bool      `json:"frozen"`
	Gains      Gains     `json:"gains"`
	Warning    string    `json:"warning,omitempty" doc:"weakness of these gains"`
	HistoryBps []float64 `json:"history_bps" doc:"goodput of the last 60 seconds, oldest first"`
	// What TCP's own numbers say since the loop began to be measured.
	SentBytes   uint64 `json:"sent_bytes" doc:"payload that passed for the first time"`
	ResentBytes uint64 `json:"resent_bytes" doc:"payload that was sent again"`
}

// Flows are the connections of a workload that moved payload over a while.
type Flows struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds" doc:"of the while"`
	Flows   []Flow  `json:"flows" doc:"the busiest first"`
}

// Flow is one TCP connection of a workload, or the traffic between two UDP ports.
type Flow struct {
	Protocol string `json:"protocol" enum:"tcp,udp"`
	Local    string `json:"local" example:"10.0.0.2:40000" doc:"address and port of the workload"`
	Remote   string `json:"remote" example:"192.0.2.1:443"`
	Queue    string `json:"queue,omitempty" doc:"that its packets join on their way out; empty if the workload has no queues"`
	// All three are payload, without headers.
	SentBps     float64 `json:"sent_bps" doc:"of TCP payload that the far end acknowledged, of UDP payload that left the workload; bits per second"`
	ReceivedBps float64 `json:"received_bps" doc:"what came for the first time, bits per second"`
	ResentBps   float64 `json:"resent_bps" doc:"what TCP sent again, bits per second"`
}

// Gains are the constants of a controller.
type Gains struct {
	Kc float64 `json:"kc" doc:"proportional gain" example:"0.15"`
	Ti float64 `json:"ti" doc:"integral time, seconds" example:"0.25"`
	Td float64 `json:"td" doc:"derivative time, seconds" example:"0"`
}

// ControlChange changes the controllers of a workload.
type ControlChange struct {
	Freeze *bool  `json:"freeze,omitempty" doc:"keep the interval where it is"`
	Gains  *Gains `json:"gains,omitempty"`
	// DefaultGains drops the gains that were set and takes the default ones.
	DefaultGains bool `json:"default_gains,omitempty"`
	// Force takes gains with which no loop is stable.
	Force bool `json:"force,omitempty"`
}

// Empty reports whether the change asks for nothing.
func (c ControlChange) Empty() bool {
	return c.Freeze == nil && c.Gains == nil && !c.DefaultGains
}

// TuneRequest says which controller to tune, and how.
type TuneRequest struct {
	Device    string `json:"device,omitempty" doc:"link; empty if there is only one"`
	Direction string `json:"direction,omitempty" enum:"egress,ingress" doc:"empty: egress"`
	Queue     string `json:"queue,omitempty" doc:"empty: the workload itself"`
	Method    string `json:"method,omitempty" enum:"step,relay" doc:"step: the answer to a step; relay: the ultimate gain"`
	Apply     bool   `json:"apply,omitempty" doc:"use the gains that are suggested"`
}

// TuneResult is the result of an experiment with a live workload.
type TuneResult struct {
	Name      string      `json:"name"`
	Device    string      `json:"device"`
	Direction string      `json:"direction"`
	Queue     string      `json:"queue,omitempty"`
	Method    string      `json:"method"`
	TargetBps float64     `json:"target_bps"`
	Points    []TunePoint `json:"points"`
	// Of a step: the plant.
	Gain  float64 `json:"gain" doc:"payload delivered for each bit on the wire"`
	Delay float64 `json:"delay" doc:"seconds until the goodput begins to follow (L)"`
	Lag   float64 `json:"lag" doc:"time constant of the answer, seconds (T)"`
	// Of the relay.
	UltimateGain   float64 `json:"ultimate_gain,omitempty"`
	UltimatePeriod float64 `json:"ultimate_period,omitempty" doc:"seconds"`

	Suggested      Gains  `json:"suggested" doc:"settle without overshoot"`
	ZieglerNichols Gains  `json:"ziegler_nichols" doc:"by the rule of that name"`
	Verdict        string `json:"verdict" doc:"whether the Ziegler-Nichols gains are stable when looked at once a second"`
	Before         Gains  `json:"before" doc:"in use until now"`
	Applied        bool   `json:"applied"`
}

// TunePoint is the goodput at an instant of an experiment.
type TunePoint struct {
	At         float64 `json:"at" doc:"seconds since it began"`
	GoodputBps float64 `json:"goodput_bps"`
	WireBps    float64 `json:"wire_bps" doc:"at which packets were let go"`
}

// Control asks for the state of a workload's controllers.
func (c *Client) Control(ctx context.Context, name string) (Control, error) {
	return call[Control](ctx, c, http.MethodGet, workloadPath(name)+"/control", nil)
}

// Flows measures the connections of a workload with a reservation for a second.
func (c *Client) Flows(ctx context.Context, name string) (Flows, error) {
	return call[Flows](ctx, c, http.MethodGet, workloadPath(name)+"/flows", nil)
}

// SetControl changes the controllers of a workload.
func (c *Client) SetControl(ctx context.Context, name string, change ControlChange, dryRun bool) (Control, error) {
	return call[Control](ctx, c, http.MethodPatch, workloadPath(name)+"/control"+dryRunQuery(dryRun), change)
}

// Tune measures how the goodput of a workload answers, and suggests gains. It takes
// about a quarter of a minute.
func (c *Client) Tune(ctx context.Context, name string, req TuneRequest) (TuneResult, error) {
	return call[TuneResult](ctx, c, http.MethodPost, workloadPath(name)+"/tune", req)
}
