// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"weir/internal/api"
	"weir/internal/kube/claims/translate"
)

const (
	// patience is for how long one request to the API server may take.
	patience = 10 * time.Second
	// sweepAgain is how long allocations without a claim are not looked for again.
	sweepAgain = time.Minute
)

// every calls f at once and then each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// followAgent asks the agent how its links are, and publishes what is different. It calls nothing
// that may wait for the API server.
func (d *driver) followAgent(ctx context.Context) {
	every(ctx, d.Poll, func() {
		if d.taken.Load() {
			d.Registered()
		}
		asking, cancel := context.WithTimeout(ctx, d.Patience)
		defer cancel()
		status, err := d.Agent.Status(asking)
		if ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case err == nil:
			d.answered(status)
		case !d.gone && time.Since(d.seen) > d.Patience:
			d.gone = true
			d.Log.Warn("the agent does not answer; its links are offered to no new pod", "err", err)
			d.tellHealth()
		}
		d.offer()
	})
}

// answered notes what the agent said of its links.
func (d *driver) answered(status api.Status) {
	if d.gone {
		d.Log.Info("the agent answers again")
	}
	changed := d.gone
	for _, l := range status.Links {
		i := slices.IndexFunc(d.links, func(o api.LinkStatus) bool { return o.Device == l.Device && o.Direction == l.Direction })
		changed = changed || i < 0 || d.links[i].Error != l.Error
	}
	d.links, d.gone, d.seen = status.Links, false, time.Now()
	if changed {
		d.tellHealth()
	}
}

// tellHealth wakes those who wait for a change of the links' health.
func (d *driver) tellHealth() {
	for _, c := range d.health {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// offer notes what ResourceSlices there should be, if that differs from before. It waits for the
// node's zone, so that they are written once at the start.
func (d *driver) offer() {
	if d.zone == nil || d.links == nil && !d.gone {
		return
	}
	var names []string
	for _, l := range d.links {
		names = append(names, l.Device)
	}
	slices.Sort(names)
	node := translate.Inventory{Links: d.links, Gone: d.gone, Zone: *d.zone, Ports: d.Ports(slices.Compact(names)), WithoutTaints: d.lacks.taints}
	devices := translate.Devices(node)
	if d.lacks.capacity {
		devices = nil
	}
	portions := translate.Slices(devices)
	if reflect.DeepEqual(portions, d.offered) {
		return
	}
	d.offered = portions
	select {
	case d.changed <- struct{}{}:
	default: // it is about to be published anyway
	}
}

// publish has the library write the ResourceSlices as they should be, after each change. The first
// time the library waits for the API server, so no lock is held.
func (d *driver) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		}
		d.mu.Lock()
		portions := d.offered
		d.mu.Unlock()
		pool := resourceslice.Pool{}
		for _, p := range portions {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: p})
		}
		err := d.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.Node: pool}})
		if err == nil || ctx.Err() != nil {
			continue
		}
		d.Log.Error("links cannot be published", "err", err)
		d.mu.Lock()
		d.offered = nil // the next look at the agent offers them again
		d.mu.Unlock()
	}
}

// followClaims finds the claims of an earlier driver, and keeps the status of all claims up to
// date. It may wait for the API server.
func (d *driver) followClaims(ctx context.Context) {
	var node pause
	read := map[string]*pause{} // by allocation
	every(ctx, d.Poll, func() {
		zone, links := d.knows()
		if !zone && node.due(time.Now()) && !d.readNode(ctx) {
			node.failed(time.Now())
		}
		if !links {
			return
		}
		for _, a := range d.reconcile(ctx) {
			if read[a.Name] == nil {
				read[a.Name] = &pause{}
			}
			if !read[a.Name].due(time.Now()) {
				continue
			}
			c, err := d.claimOf(ctx, a)
			if err != nil {
				read[a.Name].failed(time.Now())
				d.Log.Warn("claim of an allocation cannot be read", "claim", a.For, "err", err)
				continue
			}
			delete(read, a.Name)
			d.adopt(ctx, a, c)
		}
		for _, w := range d.unwritten() {
			d.write(ctx, w)
		}
	})
}

// knows reports whether the node's zone was read, and whether the agent has answered once.
func (d *driver) knows() (zone, links bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.zone != nil, d.links != nil
}

// readNode reads the node's zone, once.
func (d *driver) readNode(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	node, err := d.Client.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
	if err != nil {
		d.Log.Warn("node cannot be read; its links are published later", "node", d.Node, "err", err)
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone = new(node.Labels[corev1.LabelTopologyZone])
	return true
}

// claimOf returns the claim of an allocation, nil if that is no longer allocated.
func (d *driver) claimOf(ctx context.Context, a api.Allocation) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	namespace, name, _ := strings.Cut(a.For, "/")
	c, err := d.Client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case c.UID != types.UID(a.Name) || c.Status.Allocation == nil:
		return nil, nil
	}
	return c, nil
}

// sweep gives back what the agent holds for claims that are gone, and reports whether it has given
// anything back. Kubelet unprepares a claim before that, unless its own state was lost.
func (d *driver) sweep(ctx context.Context) bool {
	d.mu.Lock()
	early := time.Since(d.swept) < sweepAgain
	if !early {
		d.swept = time.Now()
	}
	d.mu.Unlock()
	if early {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := d.Agent.Allocations(ctx)
	if err != nil {
		return false
	}
	freed := false
	for _, a := range list {
		if c, err := d.claimOf(ctx, a); err == nil && c == nil && d.adopt(ctx, a, nil) {
			freed = true
		}
	}
	return freed
}
