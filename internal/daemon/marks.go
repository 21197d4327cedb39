// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"weir/internal/agent"
	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/doctor"
	"weir/internal/event"
	"weir/internal/plan"
)

const (
	markPause = 10 * time.Second // between two looks
	// markPart bounds what looking takes of a CPU, where there are many filters or rules: after a
	// look of 1 s the next one waits for 20 s.
	markPart    = 20
	markTimeout = time.Minute
)

// markWatch finds out, aside of the agent's goroutine, where packets lose their class and who else
// uses the bits of mark_mask.
type markWatch struct {
	mask  plan.Mask
	file  string // weir.yaml, for people
	ports func(context.Context) ([]string, error)

	mu     sync.Mutex
	busy   bool
	next   time.Time
	losses []doctor.Trouble
	shared doctor.Trouble
}

func newMarkWatch(ag *agent.Agent, c config.Config) *markWatch {
	return &markWatch{mask: plan.Mask(c.MarkMask), file: cmp.Or(c.Path, "weir.yaml"),
		ports: func(ctx context.Context) ([]string, error) {
			workloads, err := ag.Workloads(ctx)
			return devicesOf(workloads), err
		}}
}

// devicesOf returns the devices of workloads.
func devicesOf(workloads []api.Workload) (devices []string) {
	for _, w := range workloads {
		devices = append(devices, w.Devices...)
	}
	return devices
}

// look reports what the last look has found, and begins the next one when it is time.
func (w *markWatch) look(s *event.Sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.losses {
		s.Report(event.ClassLost, event.Finding{Subject: event.Subject{Type: event.Device, Name: l.About}, Text: l.Seen, Remedy: l.Remedy})
	}
	if w.shared.Seen != "" {
		s.Report(event.MarkShared, event.Finding{Subject: event.Subject{Type: event.Configuration, Name: w.file}, Text: w.shared.About + ": " + w.shared.Seen, Remedy: w.shared.Remedy})
	}
	if w.busy || s.At.Before(w.next) {
		return
	}
	var links []string
	for _, l := range s.Links {
		if !slices.Contains(links, l.Device) {
			links = append(links, l.Device)
		}
	}
	w.busy = true
	go w.find(links)
}

// find looks at the host.
func (w *markWatch) find(links []string) {
	ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
	defer cancel()
	var losses []doctor.Trouble
	ports, err := w.ports(ctx)
	began := time.Now()
	if err == nil {
		losses, err = doctor.Losses(w.mask, ports, links)
	}
	shared := doctor.MarkTrouble(ctx, w.mask)
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy, w.next, w.shared = false, time.Now().Add(max(markPause, markPart*took)), shared
	if err == nil { // else what was found last counts
		w.losses = losses
	}
}
