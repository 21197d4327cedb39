// SPDX-License-Identifier: Apache-2.0

// Package profiler makes the profiles that a node sends its manager: which containers its
// engine runs, what the agent guarantees them, what they use, and how large their own
// layers are, which is what a move would have to carry.
//
//	p, err := profiler.New(wire.EngineDocker, "/var/run/docker.sock", agent)
//	sample, err := p.Profile(ctx)
//
// What containers use is measured by package profile; here it gets its list of containers.
// An engine or an agent that does not answer leaves its part out of a profile.
package profiler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"weir/internal/api"
	"weir/internal/base/dockerapi"
	"weir/internal/cluster/profile"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
	"weir/internal/core/workload"
)

// listTimeout bounds what the engine and the agent are given for one profile.
const listTimeout = 3 * time.Second

// Profiler makes the profiles of a host with an engine that speaks Docker's API: the
// engine says which containers run, the agent what was promised to them, and the
// kernel what they use.
type Profiler struct {
	engine  wire.EngineName
	docker  *client.Client
	agent   api.Agent
	sampler *profile.Sampler
	known   map[string]int // first process, by id
	layers  layers
}

// New makes a Profiler for the engine at a socket; the engine need not run.
func New(engine wire.EngineName, socket string, agent api.Agent) (*Profiler, error) {
	c, err := dockerapi.New("unix://" + socket)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", engine, socket, err)
	}
	return &Profiler{engine: engine, docker: c, agent: agent, sampler: profile.New(profile.Options{CacheMisses: true}), known: map[string]int{}}, nil
}

// Close lets go of the engine and of the kernel's counters.
func (p *Profiler) Close() {
	p.layers.close()
	p.sampler.Close()
	p.docker.Close()
}

// Profile makes the next one.
func (p *Profiler) Profile(ctx context.Context) (wire.Profile, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := p.containers(ctx)
	missing := ""
	if err != nil {
		missing = "containers: " + err.Error()
	}
	links, workloads := p.promised(ctx)
	p.sampler.Links = links
	p.layers.look(list, p.layerSize)
	for i := range list {
		list[i].ChangedBytes = p.layers.size(list[i].ID)
		if w, ok := workloads[list[i].ID]; ok {
			list[i].Policy, list[i].Traffic = w.policy, w.traffic
		}
	}
	sample := p.sampler.Sample(time.Now(), list)
	if missing != "" {
		sample.Missing = append(sample.Missing, missing)
	}
	return sample, nil
}

// containers returns the containers that run.
func (p *Profiler) containers(ctx context.Context) ([]profile.Container, error) {
	all, err := p.docker.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return nil, err
	}
	known := map[string]int{}
	var list []profile.Container
	for _, c := range all {
		pid, ok := p.known[c.ID]
		if !ok || !lives(pid) { // started anew under the same id
			info, err := p.docker.ContainerInspect(ctx, c.ID)
			if err != nil || info.State == nil || info.State.Pid == 0 {
				continue // it has just ended
			}
			pid = info.State.Pid
		}
		known[c.ID] = pid
		list = append(list, profile.Container{ID: c.ID, Name: nameOf(c), Engine: p.engine, Image: c.Image, Labels: weirLabels(c.Labels), PID: pid})
	}
	p.known = known
	return list, nil
}

// layerSize asks the engine for the size of a container's own layer, for which it
// looks at each of its files.
func (p *Profiler) layerSize(ctx context.Context, id string) (uint64, error) {
	info, _, err := p.docker.ContainerInspectWithRaw(ctx, id, true)
	if err != nil || info.SizeRw == nil {
		return 0, cmp.Or(err, errors.New("the engine does not say"))
	}
	return uint64(max(*info.SizeRw, 0)), nil
}

func lives(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}

func nameOf(c container.Summary) string {
	for _, name := range c.Names {
		if own := strings.TrimPrefix(name, "/"); own != "" && !strings.Contains(own, "/") { // else it is a link's alias
			return own
		}
	}
	return fmt.Sprintf("%.12s", c.ID) // one that is being removed has no name
}

// weirLabels returns the labels that Weir reads. The others stay private to the
// container.
func weirLabels(labels map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range labels {
		if strings.HasPrefix(key, "weir.") {
			own[key] = value
		}
	}
	return own
}

// promised has the policy and the traffic that an agent holds for a container.
type promised struct {
	policy  wire.Policy
	traffic *profile.NetBytes
}

// promised asks the agent for its links and for the containers' policies, by id.
func (p *Profiler) promised(ctx context.Context) ([]profile.Link, map[string]promised) {
	status, err := p.agent.Status(ctx)
	if err != nil {
		return nil, nil
	}
	workloads, err := p.agent.Workloads(ctx)
	if err != nil {
		return nil, nil
	}
	byID := map[string]promised{}
	elsewhere := map[string]uint64{}
	for _, w := range workloads {
		if w.Kind != workload.KindDocker {
			for _, l := range w.Links {
				if l.Direction != "ingress" {
					elsewhere[l.Device] += l.MinBps
				}
			}
			continue
		}
		byID[w.ID] = promiseOf(w, status.Links)
	}
	var links []profile.Link
	for _, l := range status.Links {
		if l.Direction == "ingress" {
			continue
		}
		links = append(links, profile.Link{Device: l.Device, TransmitBps: l.CapacityBps,
			GuaranteedBps: uint64(float64(l.CapacityBps) * l.Reservable), ElsewhereBps: elsewhere[l.Device]})
	}
	return links, byID
}

func promiseOf(w api.Workload, links []api.LinkStatus) promised {
	out := promised{policy: wire.Policy{Weight: w.Policy.Weight}}
	for _, l := range w.Links {
		if l.Direction == "ingress" {
			continue
		}
		out.policy.MinBps = max(out.policy.MinBps, l.MinBps)
		out.policy.MaxBps = max(out.policy.MaxBps, l.MaxBps)
	}
	if w.State == workload.StateRefused && len(links) > 0 {
		if asked := uint64(w.Policy.Min.Of(policy.Rate(links[0].CapacityBps))); asked > out.policy.MinBps {
			out.policy.RefusedMinBps = asked
		}
	}
	return out
}
