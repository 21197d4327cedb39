// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/device"
	"weir/internal/lab/report"
	"weir/internal/lab/sandbox"
	"weir/internal/lab/scenario"
	"weir/internal/test/dockertest"
)

const (
	// settle is the part of each phase that is not judged.
	settle = time.Second
	// dir is on the private host's own /run, short because sockets live there.
	dir     = "/run/weir-demo"
	pins    = "/sys/fs/bpf/weir"
	cgroups = "/sys/fs/cgroup"
)

// enterPrivateHost makes the mounts private. Docker needs the machine's cgroups.
func enterPrivateHost() error {
	var keep []string
	if _, err := os.Stat(cgroups); err == nil {
		keep = append(keep, cgroups)
	}
	if err := sandbox.Enter(keep...); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// stage is the private host with whatever is on it so far.
type stage struct {
	options  Options
	show     *screen
	script   *scenario.Scenario
	network  *network
	former   string // the uplink's qdisc before the agent came
	receiver *receiver
	cast     cast
	agent    *agent
	link     api.LinkStatus
}

// perform shows everything up to the result.
func (s *stage) perform(ctx context.Context) error {
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.receiver.run(ctx)
	if err := s.receiver.await(ctx, s.names()); err != nil {
		return err
	}
	zero := s.receiver.now() // when the script begins
	for p := range s.script.Phases {
		if err := s.phase(ctx, zero, p); err != nil {
			return err
		}
	}
	name := s.script.Workloads[camera].Name
	s.show.heading("Why %s has the rate it has", name)
	if err := s.agent.weir(ctx, "explain", name); err != nil {
		return err
	}
	arrived, err := s.receiver.upTo(ctx, zero+s.script.Duration())
	if err != nil {
		return err
	}
	return s.sumUp(arrived.since(zero))
}

// build makes the private host and has an agent steer its uplink.
func (s *stage) build(ctx context.Context) (err error) {
	s.show.heading("A link of %v and three workloads, on a private host", capacity)
	if s.network, err = buildNetwork(); err != nil {
		return err
	}
	if s.former, err = rootQdisc(); err != nil {
		return err
	}
	if s.receiver, err = listen(s.network.receiver.do, receiverAddress, len(s.script.Workloads)); err != nil {
		return err
	}
	if s.cast, err = s.choose(ctx); err != nil {
		return err
	}
	s.show.line("workloads  %s", s.cast.kind())
	if s.agent, s.link, err = startAgent(ctx, dir, s.cast.socket(), s.show); err != nil {
		return err
	}
	s.show.line("scheduler  %s", backendText(s.link.Backend))
	return nil
}

// choose takes containers if that is wanted and possible, else namespaces.
func (s *stage) choose(ctx context.Context) (cast, error) {
	if s.options.Docker {
		c, err := startEngine(ctx, dir)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		reason := err.Error()
		if !errors.Is(err, dockertest.ErrNotPossible) {
			reason = "a private Docker engine does not start: " + firstLine(reason)
		}
		s.show.line("namespaces instead of containers: %s", reason)
	}
	return newNamespaces(s.network)
}

// backendText says which backend schedules, and why if it is the fallback.
func backendText(backend string) string {
	var uname unix.Utsname
	_ = unix.Uname(&uname) // cannot fail with a valid pointer
	release := unix.ByteSliceToString(uname.Release[:])
	if backend == plan.BackendBPF {
		return fmt.Sprintf("BPF qdisc, on Linux %s", release)
	}
	text := fmt.Sprintf("tc fallback (HTB), on Linux %s", release)
	if err := bpf.Supported(); err != nil {
		text += ": " + strings.TrimPrefix(firstLine(err.Error()), dataplane.ErrNoSupport.Error()+": ")
	}
	return text
}

// enter has the workloads come on the stage one after the other.
func (s *stage) enter(ctx context.Context) error {
	for w, workload := range s.script.Workloads {
		how, err := s.cast.enter(ctx, workload.Name, workload.Policy.Weight, target(receiverAddress, w))
		if err != nil {
			return err
		}
		if how.attach == nil {
			s.show.line("%s", how.note)
		} else if err := s.agent.weir(ctx, how.attach...); err != nil {
			return err
		}
		if err := s.agent.knows(ctx, workload.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) names() []string {
	var names []string
	for _, w := range s.script.Workloads {
		names = append(names, w.Name)
	}
	return names
}

// phase shows one phase of the script, which began at zero.
func (s *stage) phase(ctx context.Context, zero time.Duration, p int) error {
	span := s.script.Spans()[p]
	s.show.heading("Phase %d of %d, %v s: %s", p+1, len(s.script.Phases), s.script.Phases[p].For.Seconds(), acts[p].title)
	s.show.line("%s", acts[p].why)
	for _, change := range s.script.Phases[p].Set {
		if err := s.agent.weir(ctx, command(s.script, change)...); err != nil {
			return err
		}
	}
	every := time.Second
	if s.show.terminal {
		every /= 4
	}
	for at := span.From + every; at <= span.To; at += every {
		if err := sleep(ctx, zero+at-s.receiver.now()); err != nil {
			return err
		}
		s.show.live(s.moment(zero, p, at))
	}
	s.show.keep()
	return nil
}

// moment returns the workloads' rates at an instant of the script: the mean of the last
// second, or of the time since phase p began if that is shorter.
func (s *stage) moment(zero time.Duration, p int, at time.Duration) moment {
	span := s.script.Spans()[p]
	m := moment{names: s.names(), promised: promised(s.script, p), since: at - span.From, left: span.To - at}
	arrived := s.receiver.series().since(zero)
	until := arrived[len(arrived)-1].at
	for w := range m.names {
		m.rates = append(m.rates, arrived.rate(w, max(span.From, until-time.Second), until))
	}
	return m
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// sumUp shows the promised and the measured rates.
func (s *stage) sumUp(arrived series) error {
	findings, within := judge(s.script, arrived), tolerance(s.link.Backend)
	s.show.heading("What was promised, and what arrived at the receiver")
	for l := range strings.Lines(table(s.script, findings)) {
		s.show.line("%s", strings.TrimRight(l, "\n"))
	}
	s.show.line("error: share of the link; the first second of each phase is left out")
	base, err := report.Plot(outFolder, result(s.script, arrived, s.link.Backend))
	if err != nil {
		return err
	}
	name := filepath.Join(s.options.Out, filepath.Base(base))
	s.show.line("drawn as %s.svg and %s.png", name, name)
	lines := broken(s.script, findings, within)
	for _, l := range lines {
		s.show.line("%s", s.show.bad.Render(l))
	}
	for _, l := range reasons(s.script, arrived, findings, within) {
		s.show.line("%s", l)
	}
	if len(lines) > 0 {
		return ErrBroken
	}
	s.show.line("%s", s.show.good.Render(fmt.Sprintf("Every promise was kept within %.0f %% of the link.", within*100)))
	return nil
}

// clear leaves the host as it was found, and checks that. It runs whatever
// happened before, and however much there is to clear.
func (s *stage) clear() error {
	s.show.keep()
	var errs []error
	ctx := context.Background() // an interrupt must not end this
	if s.agent != nil {
		s.show.heading("Leave the host as it was found")
		errs = append(errs, s.agent.stop(), s.agent.weir(ctx, "cleanup", "--config", s.agent.config), s.checkLink())
	}
	if s.cast != nil {
		errs = append(errs, s.cast.leave())
	}
	if s.receiver != nil {
		errs = append(errs, s.receiver.close())
	}
	return errors.Join(errs...)
}

// checkLink says whether the uplink is as it was before the agent came.
func (s *stage) checkLink() error {
	now, err := rootQdisc()
	if err != nil {
		return err
	}
	if now != s.former {
		return fmt.Errorf("%s has qdisc %s after weir cleanup, and had %s before", uplink, now, s.former)
	}
	left, err := leftPins()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("weir cleanup left %s", strings.Join(left, ", "))
	}
	s.show.line("%s has its former qdisc (%s); no pin is left in %s", uplink, now, pins)
	return nil
}

// rootQdisc of the uplink, in words.
func rootQdisc() (string, error) {
	conn, err := device.Open()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	dev, err := conn.Lookup(uplink)
	if err != nil {
		return "", err
	}
	q, err := conn.Root(dev)
	return q.String(), err
}

// leftPins returns the pins of Weir that are still in the private host's BPF file system.
func leftPins() (left []string, err error) {
	err = filepath.WalkDir(pins, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return left, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
