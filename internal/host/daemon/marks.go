// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/doctor"
)

const (
	markPause = 10 * time.Second       // between two looks, where the kernel has noticed no change
	markSure  = time.Minute            // the same, where it notices all that counts
	markBlind = time.Second            // the same, where it notices none of some rules
	markNear  = 250 * time.Millisecond // between two, where it has
	markPoll  = time.Second            // between two questions for tcx programs
	// markPart bounds what looking takes of a CPU in the long run, where there are many filters
	// or rules, or they change all the time; markBurst is what it may take at once.
	markPart    = 20
	markBurst   = time.Second
	markTimeout = time.Minute
)

// markWatch finds out, aside of the agent's goroutine, where packets lose their class, who else
// uses the bits of mark_mask, and which filters of others do not see packets as without Weir.
type markWatch struct {
	mask plan.Mask
	auto bool   // the agent has chosen them
	file string // weir.yaml, for people

	changed chan struct{} // holds one report

	mu      sync.Mutex
	links   []string
	names   []string // of workloads
	ingress string   // a link whose ingress is steered, "" = there is none
	losses  []doctor.Trouble
	skipped []doctor.Trouble
	shared  doctor.Trouble

	// Of run: the devices between workloads and links, and what there was of tcx programs
	// there.
	way       []int
	revisions uint64
}

func newMarkWatch(c config.Config) *markWatch {
	return &markWatch{mask: plan.Mask(c.MarkMask), auto: c.MarkAuto, file: cmp.Or(c.Path, "weir.yaml"), changed: make(chan struct{}, 1)}
}

// devicesOf returns the devices of workloads.
func devicesOf(workloads []api.Workload) (devices []string) {
	for _, w := range workloads {
		devices = append(devices, w.Devices...)
	}
	return devices
}

// look reports what the last look at the host has found.
func (w *markWatch) look(s *event.Sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.losses {
		s.Report(event.ClassLost, event.Condition{Subject: event.Subject{Type: event.Device, Name: l.About}, Text: l.Seen, Remedy: l.Remedy})
	}
	for _, l := range w.skipped {
		s.Report(event.FilterSkipped, event.Condition{Subject: event.Subject{Type: event.Device, Name: l.About}, Text: l.Seen, Remedy: l.Remedy})
	}
	if w.shared.Seen != "" {
		s.Report(event.MarkShared, event.Condition{Subject: event.Subject{Type: event.Configuration, Name: w.file}, Text: w.shared.About + ": " + w.shared.Seen, Remedy: w.shared.Remedy})
	}
	var links, names []string
	ingress := ""
	for _, l := range s.Links {
		if l.Direction == string(policy.Ingress) && ingress == "" {
			ingress, _, _ = strings.Cut(l.Device, " ") // the zone
		}
		if !slices.Contains(links, l.Device) {
			links = append(links, l.Device)
		}
	}
	for _, o := range s.Objects {
		names = append(names, o.Name)
	}
	if ingress != w.ingress || !slices.Equal(links, w.links) || !slices.Equal(names, w.names) {
		report(w.changed)
	}
	w.links, w.names, w.ingress = links, names, ingress
}

// run looks at the host until ctx ends: when it has changed, and from time to time. ports returns
// the devices of workloads; a value in devices says that some of the host's have changed.
func (w *markWatch) run(ctx context.Context, devices <-chan struct{}, ports func(context.Context) ([]string, error)) {
	followChanges(ctx, w.changed)
	near := time.NewTimer(markNear)
	defer near.Stop()
	var due, next time.Time // a look without a change; one with a change
	left, at := markBurst, time.Now()
	for again := true; ; {
		now := time.Now()
		left, at = min(left+now.Sub(at)/markPart, markBurst), now
		if left > 0 && now.After(next) && (again || doctor.Revisions(w.way) != w.revisions || now.After(due)) {
			w.find(ctx, ports)
			left -= time.Since(now)
			again, due, next = false, time.Now().Add(w.pause()), time.Now().Add(markNear)
		}
		wait := markNear
		switch {
		case !again && len(w.way) == 0: // there is no program of which no notice comes
			wait = time.Until(due)
		case !again:
			wait = markPoll
		}
		near.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-devices:
			again = true
		case <-w.changed:
			again = true
		case <-near.C:
		}
	}
}

// pause returns how long a look holds if there is no notice of a change.
func (w *markWatch) pause() time.Duration {
	switch {
	case w.mask == 0 && !w.auto:
		return markSure
	case olderTables():
		return markBlind
	}
	return markPause
}

// find looks at the host.
func (w *markWatch) find(ctx context.Context, ports func(context.Context) ([]string, error)) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	w.mu.Lock()
	links, ingress := w.links, w.ingress
	w.mu.Unlock()
	var losses doctor.ClassLosses
	var skipped []doctor.Trouble
	devices, err := ports(ctx)
	if err == nil {
		losses, err = doctor.LookLosses(w.mask, devices, links)
	}
	if err == nil && ingress != "" {
		skipped, err = doctor.SkippedFilters(devices, device.IFB{Link: ingress, Ingress: true}.Back())
	}
	shared := doctor.MarkTrouble(ctx, w.mask, w.auto)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = shared
	if err == nil { // else what was found last counts
		w.skipped = skipped
		w.losses, w.way, w.revisions = losses.Troubles, losses.Way, losses.Revisions
	}
}
