// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/base/program"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
)

const (
	steeredBy = 30 * time.Second // by when the link has to be steered, and a workload found
	stopsBy   = 10 * time.Second // by when an agent that was told to stop has ended
)

// agent is a running weir agent, and the command line that talks to it.
type agent struct {
	cmd    *exec.Cmd
	file   string // of weir, the program
	client *api.Client
	config string // path of its configuration
	log    string // path of what it wrote
	exited chan struct{}
	show   *screen
}

// configuration returns the agent's file.
func configuration(dir, dockerSocket string) string {
	docker := "{enabled: false}"
	if dockerSocket != "" {
		docker = fmt.Sprintf("{socket: %s}", dockerSocket)
	}
	return fmt.Sprintf(`links:
  - {device: %s, egress: %s}
docker: %s
socket: %s
group: root
state_dir: %s
`, uplink, policy.Rate(capacity).Compact(), docker, filepath.Join(dir, "weir.sock"), filepath.Join(dir, "state"))
}

// startAgent starts an agent that keeps everything in dir, and returns once it
// steers the link.
func startAgent(ctx context.Context, dir, dockerSocket string, show *screen) (*agent, api.LinkStatus, error) {
	file, err := program.Find(program.Weir)
	if err != nil {
		return nil, api.LinkStatus{}, fmt.Errorf("%w; make install installs it", err)
	}
	a := &agent{
		file:   file,
		config: filepath.Join(dir, "weir.yaml"), log: filepath.Join(dir, "agent.log"),
		client: api.NewClient(filepath.Join(dir, "weir.sock")), exited: make(chan struct{}), show: show,
	}
	if err := os.WriteFile(a.config, []byte(configuration(dir, dockerSocket)), 0o600); err != nil {
		return nil, api.LinkStatus{}, err
	}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, api.LinkStatus{}, err
	}
	defer log.Close()
	a.cmd = exec.Command(a.file, "agent", "--config", a.config)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		return nil, api.LinkStatus{}, fmt.Errorf("start the agent: %w", err)
	}
	go func() {
		_ = a.cmd.Wait() // how it ended is in its log
		close(a.exited)
	}()
	link, err := a.steers(ctx)
	if err != nil {
		return nil, link, errors.Join(fmt.Errorf("%w; the agent's last words:\n%s", err, a.lastWords()), a.stop())
	}
	return a, link, nil
}

// steers waits until the link is steered.
func (a *agent) steers(ctx context.Context) (link api.LinkStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, steeredBy)
	defer cancel()
	return link, poll(ctx, func() error {
		select {
		case <-a.exited:
			cancel()
			return errors.New("the agent ended at once")
		default:
		}
		status, err := a.client.Status(ctx)
		switch {
		case err != nil:
			return err
		case len(status.Links) != 1:
			return fmt.Errorf("the agent has %d links instead of one", len(status.Links))
		case status.Links[0].Error != "":
			return fmt.Errorf("link %s is not steered: %s", uplink, status.Links[0].Error)
		}
		link = status.Links[0]
		return nil
	})
}

// knows waits until the agent has found a workload and steers it.
func (a *agent) knows(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, steeredBy)
	defer cancel()
	return poll(ctx, func() error {
		w, err := a.client.Workload(ctx, name)
		if err == nil && w.State != workload.StateActive {
			err = fmt.Errorf("workload %s is %s: %s", name, w.State, w.Note)
		}
		return err
	})
}

// weir runs the command line as a person would, and shows it with its answer.
func (a *agent) weir(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, a.file, args...)
	cmd.Env = append(os.Environ(), "WEIR_SOCKET="+a.client.Socket())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	a.show.command("weir "+strings.Join(args, " "), out.String())
	if err != nil {
		return fmt.Errorf("weir %s: %w: %s", args[0], err, strings.TrimSpace(out.String()))
	}
	return nil
}

// stop has the agent end as a service manager would.
func (a *agent) stop() error {
	_ = a.cmd.Process.Signal(os.Interrupt) // fails only if it has ended already
	select {
	case <-a.exited:
		return nil
	case <-time.After(stopsBy):
		_ = a.cmd.Process.Kill()
		<-a.exited
		return fmt.Errorf("the agent did not stop within %v and was killed; its last words:\n%s", stopsBy, a.lastWords())
	}
}

// lastWords returns the end of the agent's log.
func (a *agent) lastWords() string {
	text, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
