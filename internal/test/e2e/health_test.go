// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/tlsfile/tlstest"
	"weir/internal/core/event"
	"weir/internal/host/doctor"
)

// fault is one that is done to a host, and undone.
type fault struct {
	name, kind, severity string
	remedy               string // a part of what is to be done about it
	do, undo             func()
}

// TestFaultsAreSaid: of each fault of a host status, its exit code, metrics, events and doctor say
// the same within two seconds (and the second that it has to last before it is told), with the
// remedy; and nothing when it is mended.
func TestFaultsAreSaid(t *testing.T) {
	b := newBed(t, 1, 1)
	second := func() {
		b.host.run("ip link add second type veth peer name far")
		b.host.up("far")
		b.host.up("second")
	}
	second()
	b.small(b.stateDir())
	authority := tlstest.New(t, "authority")
	files := authority.Issue(t, "localhost")
	socket := filepath.Join(b.dir, "docker.sock")
	docker := newEngine(t, socket)
	taken := b.host.listen("127.0.0.1:9469")
	good := func(settings, more string) {
		b.write(fmt.Sprintf("socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {socket: %s}\n"+
			"links:\n  - {device: up0, egress: %dbit%s}\n  - {device: second, egress: 10mbit}\n"+
			"attach: [{name: w1, netns: w1}]\nmetrics: {listen: '127.0.0.1:9469', tls: {cert: %s, key: %s}}\n%s",
			b.socket(), b.stateDir(), groupName, socket, b.capacity, settings, files.Cert, files.Key, more))
	}
	right := func() { good("", "") }
	wrong := func(more string) func() { return func() { good("", more) } }
	full := filepath.Join(b.stateDir(), "full")
	run := func(command string) func() { return func() { b.host.run(command) } }
	reissue := func(options ...tlstest.Option) func() {
		return func() { authority.Issue(t, "localhost", options...) }
	}
	right()
	a := b.start()
	b.steered(a)
	faults := []fault{
		{"an address is taken", event.NotServed, event.Warning, "127.0.0.1:9469", func() {}, func() { taken.Close() }},
		{"weir.yaml is no YAML", "config-wrong", event.Error, "weir config check", wrong("workloads: {\n"), right},
		{"weir.yaml has a field that there is not", "config-wrong", event.Error, "weir config check", wrong("wrokloads: {}\n"), right},
		{"weir.yaml is anybody's", "config-wrong", event.Error, "chmod", run("chmod 666 " + b.configFile()), run("chmod 644 " + b.configFile())},
		{"weir.yaml is gone", "config-wrong", event.Error, "", run("mv " + b.configFile() + " " + b.configFile() + ".away"), run("mv " + b.configFile() + ".away " + b.configFile())},
		{"a setting waits for a start", "restart-due", event.Warning, "systemctl restart weir", wrong("profile: small\n"), right},
		{"a min that no link has room for", "refused", event.Warning, "weir explain w1", wrong("workloads: {w1: {min: 200mbit}}\n"), right},
		{"no link is named", "no-link", event.Warning, "weir.yaml", func() {
			b.write(fmt.Sprintf("socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {socket: %s}\nlinks: []\nmetrics: {listen: '127.0.0.1:9469', tls: {cert: %s, key: %s}}\n",
				b.socket(), b.stateDir(), groupName, socket, files.Cert, files.Key))
		}, right},
		{"the device of a link is down", "link-down", event.Error, "ip link set second up", run("ip link set second down"), run("ip link set second up")},
		{"a link has no carrier", "link-down", event.Error, "cable", run("ip link set far down"), run("ip link set far up")},
		{"the device of a link is gone", "link-gone", event.Error, "ip link", func() { b.host.delete("second") }, second},
		{"the engine ends", "source-lost", event.Error, "docker", docker.close, func() { docker.listen(t, socket) }},
		{"the disk of the state is full", "unwritable", event.Error, "make room", func() { _ = os.WriteFile(full, make([]byte, 8<<20), 0o600) }, func() { b.must(os.Remove(full)) }},
		{"the disk of the state can only be read", "unwritable", event.Error, "writable", func() {
			b.must(unix.Mount(b.stateDir(), b.stateDir(), "", unix.MS_BIND, ""))
			b.must(unix.Mount("", b.stateDir(), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}, func() { b.must(unix.Unmount(b.stateDir(), 0)) }},
		{"a certificate has ended", event.BadCertificate, event.Warning, "put a new one", reissue(tlstest.Expired), reissue()},
		{"a certificate is none", event.BadCertificate, event.Warning, "put a new one", func() { b.must(os.WriteFile(files.Cert, []byte("none\n"), 0o644)) }, reissue()},
		{"no program takes events", "undelivered", event.Warning, "127.0.0.1:9", func() {
			good("", "tell: {webhook: {url: 'http://127.0.0.1:9/'}}\n")
			time.Sleep(time.Second) // it is in force
			b.host.run("tc qdisc del dev second root")
		}, right},
		{"a certificate is gone", event.BadCertificate, event.Warning, "put a new one", func() { b.must(os.Remove(files.Cert)) }, reissue()},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			f.do()
			a.t, b.t = t, t
			b.agree(f, true)
			f.undo()
			b.agree(f, false)
		})
	}
	a.t, b.t = t, t
}

// agree waits until status says that there is a fault, or no longer, and then until all others do.
func (b *bed) agree(f fault, there bool) {
	b.t.Helper()
	took := await(b.t, said+time.Second, f.kind, func() error {
		_, err := b.problems(f, there)
		return err
	})
	all := await(b.t, patience, f.kind+" in all answers", func() error { return b.others(f, there) })
	b.t.Logf("%v: said after %v, by all %v later", there, took, all)
}

// problems returns what is wrong, which is the fault alone, or nothing.
func (b *bed) problems(f fault, there bool) ([]event.Fault, error) {
	status, err := api.NewClient(b.socket()).Status(context.Background())
	if err != nil {
		return nil, err
	}
	list := status.Problems
	if !there && len(list) == 0 {
		return nil, nil
	}
	if !there || len(list) != 1 || list[0].Kind != f.kind || list[0].Severity != f.severity || !strings.Contains(list[0].String(), f.remedy) || list[0].Remedy == "" {
		return nil, fmt.Errorf("problems %+v", list)
	}
	return list, nil
}

// others asks all but the API.
func (b *bed) others(f fault, there bool) error {
	problems, err := b.problems(f, there)
	if err != nil {
		return err
	}
	if !there {
		return b.allWell()
	}
	text := "health   1 problem: " + problems[0].String() + "\n"
	if got := b.cli("status", "--check"); !strings.HasPrefix(got.stdout, text) || (got.code == 1) != (f.severity == event.Error) {
		return fmt.Errorf("status ends with %d and says %q, want %q", got.code, got.stdout, text)
	}
	metric := fmt.Sprintf("weir_problems{kind=%q,severity=%q} 1\n", f.kind, f.severity)
	if !strings.Contains(b.metrics(), metric) {
		return fmt.Errorf("metrics lack %s", metric)
	}
	if open := b.openEvents(); !slices.ContainsFunc(open, func(e event.Event) bool { return e.Kind == f.kind }) {
		return fmt.Errorf("open events are %+v", open)
	}
	findings, code, err := b.examined()
	if err != nil {
		return err
	}
	said := func(one doctor.Finding) bool {
		return one.Check == "agent" && one.Seen == problems[0].Text && one.Remedy == problems[0].Remedy
	}
	if !slices.ContainsFunc(findings, said) {
		return fmt.Errorf("doctor says %+v", findings)
	}
	if f.severity == event.Error && code != 1 {
		return fmt.Errorf("doctor ends with %d", code)
	}
	return nil
}

// healthy fails unless status, metrics, events and doctor find nothing wrong with the host.
func (b *bed) healthy() {
	b.t.Helper()
	await(b.t, patience, "all is well", b.allWell)
}

func (b *bed) allWell() error {
	if got := b.cli("status", "--check"); !strings.HasPrefix(got.stdout, "health   all is well\n") || got.code != 0 {
		return fmt.Errorf("status ends with %d and says %q", got.code, got.stdout)
	}
	if got := problemMetric.FindString(b.metrics()); got != "" {
		return fmt.Errorf("metrics have %s", got)
	}
	for _, e := range b.openEvents() {
		if e.Severity != event.Notice {
			return fmt.Errorf("an event is open: %+v", e)
		}
	}
	findings, code, err := b.examined()
	if err != nil {
		return err
	}
	for _, one := range findings {
		if one.Level == doctor.Fails {
			return fmt.Errorf("doctor says of %s: %s", one.Check, one.Seen)
		}
	}
	if code != 0 {
		return fmt.Errorf("doctor ends with %d: %+v", code, findings)
	}
	return nil
}

// problemMetric is of a problem that there is.
var problemMetric = regexp.MustCompile(`weir_problems\{.*\} [^0].*`)

func (b *bed) metrics() string {
	b.t.Helper()
	return b.host.run("curl -sS --unix-socket " + b.socket() + " http://weir/metrics")
}

func (b *bed) openEvents() (open []event.Event) {
	b.t.Helper()
	b.must(json.Unmarshal([]byte(b.weir("events", "--open", "-o", "json")), &open))
	return open
}

// examined returns what weir doctor finds, and its exit code.
func (b *bed) examined() (findings []doctor.Finding, code int, err error) {
	got := b.cli("doctor", "--config", b.configFile(), "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &findings); err != nil {
		return nil, got.code, fmt.Errorf("doctor: %w: %s", err, got.stderr)
	}
	return findings, got.code, nil
}

// must ends the test if there is an error.
func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// small has a folder on a disk of its own, of 4 MiB.
func (b *bed) small(folder string) {
	b.t.Helper()
	b.must(os.MkdirAll(folder, 0o700))
	b.must(unix.Mount("state", folder, "tmpfs", 0, "size=4m,mode=700"))
	b.t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
}

// listen opens an address of the namespace until the listener is closed or the test ends.
func (s *space) listen(address string) net.Listener {
	s.t.Helper()
	var l net.Listener
	s.must("listen", s.do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp4", address)
		return err
	}))
	s.t.Cleanup(func() { l.Close() })
	return l
}
