// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/dataplane/bpf"
	"weir/internal/doccommand"
)

// rules says, for each page of the documentation, on what host its commands run and
// which of them do not run as they are printed.
//
//go:embed testdata/documented.yaml
var rules []byte

// page is the host that a page's commands expect, and its exceptions.
type page struct {
	Workloads []string        `yaml:"workloads"` // network namespaces
	Sending   []string        `yaml:"sending"`   // those of them that send all they can
	Taps      []string        `yaml:"taps"`
	Kind      string          `yaml:"kind"`   // of workloads, as the page shows it; here they are of the kind netns
	Config    string          `yaml:"config"` // weir.yaml; "" = the page starts the agent itself
	Elsewhere string          `yaml:"elsewhere"`
	Commands  map[string]rule `yaml:"commands"` // by the first words of a command
}

// rule is how a command runs that does not run as it is printed, to its end, with
// exit code 0.
type rule struct {
	Code       int           `yaml:"code"`
	Fallback   *int          `yaml:"fallback"`   // the exit code on the fallback, where what the page shows is not printed
	Stopped    bool          `yaml:"stopped"`    // the agent is stopped first
	For        time.Duration `yaml:"for"`        // then it is interrupted
	Background bool          `yaml:"background"` // an agent, in the place of the one before
	Before     string        `yaml:"before"`     // a command that comes first
	Instead    string        `yaml:"instead"`    // a command that stands for it
	Within     time.Duration `yaml:"within"`     // what it shows is there after so long at most
	Elsewhere  string        `yaml:"elsewhere"`  // it does not run here: the test that runs it, or why none does
}

func readRules(t *testing.T) (pages map[string]page) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions(rules, &pages, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	return pages
}

// documentation is the folder that has README.md and docs: the repository, or, in a
// virtual machine, the working directory.
func documentation(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"../..", "."} {
		if _, err := os.Stat(filepath.Join(dir, "README.md")); err == nil {
			return dir
		}
	}
	t.Fatal("README.md and docs are not here; in a virtual machine: vm/run --copy README.md --copy docs")
	return ""
}

func commandsOf(t *testing.T, name string) []doccommand.Command {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documentation(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return doccommand.Parse(string(text))
}

// ruleOf is the rule with the longest name that a command begins with.
func (p page) ruleOf(command string) (name string, r rule) {
	for n, one := range p.Commands {
		if strings.HasPrefix(command, n) && len(n) > len(name) {
			name, r = n, one
		}
	}
	return name, r
}

// Every page that shows commands has rules, and every rule is about a command that is
// there.
func TestEveryDocumentedCommandHasItsRule(t *testing.T) {
	pages := readRules(t)
	files, err := filepath.Glob(filepath.Join(documentation(t), "docs", "*.md"))
	if err != nil || len(files) < 20 {
		t.Fatalf("pages: %v (%v)", files, err)
	}
	names := []string{"README.md"}
	for _, f := range files {
		names = append(names, filepath.Join("docs", filepath.Base(f)))
	}
	commands := 0
	for _, name := range names {
		list := commandsOf(t, name)
		commands += len(list)
		p, ok := pages[name]
		if !ok && len(list) > 0 {
			t.Errorf("%s:%d: shows %q, and testdata/documented.yaml has no rules for the page", name, list[0].Line, list[0].Text)
		}
		used := map[string]bool{}
		for _, c := range list {
			n, _ := p.ruleOf(c.Text)
			used[n] = true
		}
		for n := range p.Commands {
			if !used[n] {
				t.Errorf("testdata/documented.yaml: %s shows no command %q", name, n)
			}
		}
	}
	for name := range pages {
		if !slices.Contains(names, name) {
			t.Errorf("testdata/documented.yaml: there is no page %s", name)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}

// The commands of a page do what it says, in its order, and print what it shows, but
// for numbers.
func TestDocumentedCommands(t *testing.T) {
	pages := readRules(t)
	for name, p := range pages {
		if p.Elsewhere != "" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".md"), func(t *testing.T) {
			newDocumented(t, p).follow(name, commandsOf(t, name))
		})
	}
}

// documented is a host on which the commands of a page run.
type documented struct {
	t        *testing.T
	page     page
	host     *space
	dir      string
	agent    *exec.Cmd
	log      bytes.Buffer
	fallback bool
}

func newDocumented(t *testing.T, p page) *documented {
	t.Helper()
	mountBPFFS(t)
	d := &documented{t: t, page: p, host: newSpace(t, "host"), dir: t.TempDir(), fallback: bpf.Supported() != nil}
	srv := newSpace(t, "srv")
	d.host.bridge("br0")
	d.host.plug("br0", "eth0", srv, "eth0", serverAt(0))
	launch(srv, "receive").read()
	for i, name := range p.Workloads {
		box := newSpace(t, name)
		d.host.plug("br0", "veth-"+name, box, "eth0", workloadAt(0, i+1))
		box.knows("eth0", serverAt(0))
		srv.knows("eth0", workloadAt(0, i+1))
		if slices.Contains(p.Sending, name) {
			launch(box, "tcp", fmt.Sprintf("%s:%d", serverAt(0).ip, tcpPort), "2")
		}
	}
	for _, name := range p.Taps {
		d.host.run("ip tuntap add " + name + " mode tap")
		d.host.run("ip link set " + name + " master br0 up")
	}
	for _, dir := range []string{"/etc/weir", "/var/lib/weir", "/run/weir", "/var/log/weir"} {
		d.hide(dir)
	}
	if p.Config != "" {
		if err := os.WriteFile("/etc/weir/weir.yaml", []byte(p.Config), 0o644); err != nil {
			t.Fatal(err)
		}
		d.start("weir agent")
	}
	return d
}

// hide gives the test an empty folder in the place of one of the machine's.
func (d *documented) hide(dir string) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755")); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			d.t.Error(err)
		}
	})
}

func (d *documented) follow(name string, commands []doccommand.Command) {
	for _, c := range commands {
		n, r := d.page.ruleOf(c.Text)
		if r.Elsewhere != "" {
			continue
		}
		if r.Stopped {
			d.stop()
		}
		if r.Before != "" {
			if code, printed := d.run(r.Before, 0); code != 0 {
				d.t.Fatalf("%s: exit code %d: %s", r.Before, code, printed)
			}
		}
		text := c.Text
		if r.Instead != "" {
			text = r.Instead
		}
		if r.Background {
			d.start(text)
			continue
		}
		if r.Fallback != nil && d.fallback {
			r.Code, c.Output = *r.Fallback, nil
		}
		deadline := time.Now().Add(r.Within)
		for {
			code, printed := d.run(text, r.For)
			missing := ""
			if c.Output != nil && r.Instead == "" {
				missing = doccommand.Missing(d.shown(c.Output), printed)
			}
			if code == r.Code && missing == "" {
				break
			}
			if time.Now().Before(deadline) {
				time.Sleep(200 * time.Millisecond)
				continue
			}
			if code != r.Code {
				d.t.Errorf("%s:%d: %s\nexit code %d, want %d (rule %q); it prints\n%s", name, c.Line, text, code, r.Code, n, printed)
			} else {
				d.t.Errorf("%s:%d: %s\ndoes not print %q; it prints\n%s", name, c.Line, text, missing, printed)
			}
			break
		}
	}
}

// shown is what a page shows, with the kind that workloads have here.
func (d *documented) shown(output []string) (list []string) {
	for _, line := range output {
		if d.page.Kind != "" {
			line = strings.ReplaceAll(line, "  "+d.page.Kind+"  ", "  netns  ")
		}
		list = append(list, line)
	}
	return list
}

// run runs a command on the host, for at most so long if that is not 0.
func (d *documented) run(text string, most time.Duration) (code int, printed string) {
	d.t.Helper()
	if most > 0 {
		text = fmt.Sprintf("timeout --preserve-status --signal INT %g %s", most.Seconds(), text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := d.command(ctx, text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := d.host.do(cmd.Run)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatalf("%s: %v", text, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (d *documented) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", text)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(weir)+":"+os.Getenv("PATH"), "HOME=/", "TERM=dumb")
	cmd.Dir = d.dir
	return cmd
}

// start starts an agent, in the place of the one before.
func (d *documented) start(text string) {
	d.t.Helper()
	if d.agent != nil {
		d.stop()
	}
	d.agent = d.command(context.Background(), "exec "+text)
	d.agent.Stdout, d.agent.Stderr = &d.log, &d.log
	d.host.start(d.agent)
	d.t.Cleanup(func() {
		d.stop()
		if d.t.Failed() {
			d.t.Logf("log of the agent:\n%s", d.log.String())
		}
	})
	client := api.NewClient("/run/weir/weir.sock")
	await(d.t, 20*time.Second, text, func() error {
		_, err := client.Status(context.Background())
		return err
	})
}

func (d *documented) stop() {
	if d.agent.ProcessState != nil {
		return
	}
	_ = d.agent.Process.Signal(unix.SIGTERM)
	_ = d.agent.Wait()
}
