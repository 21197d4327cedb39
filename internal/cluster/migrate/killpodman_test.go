// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/core/wire"
)

// podmanMachine is a Podman in namespaces of its own: of mounts, of the network, of cgroups and
// of processes, since a copy has the id, and the cgroup, of the container on the other machine.
type podmanMachine struct {
	*machine
	holder    int    // the first process of its namespaces
	processes string // the namespace of its processes
	conf      string // folder of its configuration
	wire      string // address of its eth0
	other     *podmanMachine
}

// The first process of a machine. It takes a cgroup of its own ($1) for the root of its
// namespace, mounts what the machine has of its own ($2 at $3), and collects the processes that
// lose their parents.
const (
	holderGroup = `set -e
for group in $(sed -n 's/^[0-9]*:\([^:]*\):.*/\1:/p' /proc/self/cgroup); do
	controller=${group%:}; controller=${controller#name=}
	root=/sys/fs/cgroup/$controller
	[ -z "$controller" ] && mountpoint -q /sys/fs/cgroup/unified && root=/sys/fs/cgroup/unified
	mountpoint -q "$root" || continue
	mkdir -p "$root/$1"
	for file in cpuset.cpus cpuset.mems; do
		[ "$controller" != cpuset ] || cat "$root/$file" >"$root/$1/$file"
	done
	echo $$ >"$root/$1/cgroup.procs"
done
exec unshare --pid --fork --mount --net --cgroup --propagation private --kill-child bash -c "$4" "$2" "$3"
`
	holderMounts = `set -e
mount --bind "$0" "$1"
mount -t proc proc /proc
for folder in /run/netns /run/runc; do
	mkdir -p $folder && mount -t tmpfs tmpfs $folder
done
if mountpoint -q /sys/fs/cgroup/freezer; then
	for root in /sys/fs/cgroup/*; do
		mountpoint -q "$root" || continue
		options=$(basename "$root"); type=cgroup
		[ "$options" != systemd ] || options=none,name=systemd
		[ "$options" != unified ] || type=cgroup2
		umount "$root"
		if [ $type = cgroup2 ]; then mount -t cgroup2 cgroup2 "$root"; else mount -t cgroup -o "$options" cgroup "$root"; fi
	done
else
	umount /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mkdir -p /sys/fs/cgroup/holder
	echo 1 >/sys/fs/cgroup/holder/cgroup.procs
fi
ip link set lo up
echo up
while read -r -t 1 _ || [ $? -gt 128 ]; do :; done # until the test ends
`
)

// newPodmanMachines starts two machines with Podman, joined by a cable at their eth0.
func newPodmanMachines(t *testing.T) []*machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	for _, program := range []string{"podman", "criu", "conmon", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: no %s: scripts/deps cluster installs it", program)
		}
	}
	dir, err := os.MkdirTemp("", "weir-kill-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	a, b := newPodmanMachine(t, dir, "a", "10.78.0.11/24"), newPodmanMachine(t, dir, "b", "10.78.0.12/24")
	a.must(run("ip", "link", "add", "eth0", "netns", strconv.Itoa(a.holder), "type", "veth", "peer", "eth0", "netns", strconv.Itoa(b.holder)))
	for _, p := range []*podmanMachine{a, b} {
		p.must(run(p.in("sh", "-c", "ip address add "+p.wire+" dev eth0 && ip link set eth0 up")...))
	}
	for _, p := range []*podmanMachine{a, b} {
		p.podman("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--subnet", "10.78.0.0/24", "--gateway", "10.78.0.12", "macvlan")
	}
	a.other, b.other = b, a
	image := counterArchive(t, dir)
	a.podman("import", "--change", "ENV GODEBUG=multipathtcp=0", "--change", `ENTRYPOINT ["/counter"]`, image, "counter:1")
	for _, p := range []*podmanMachine{a, b} {
		p.startHelper()
		p.startAgent()
		t.Cleanup(p.stop)
	}
	return []*machine{a.machine, b.machine}
}

// counterArchive makes the file system of the counter.
func counterArchive(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "rootfs")
	err := os.MkdirAll(root+"/state", 0o755)
	build := exec.Command("go", "build", "-o", root+"/counter", "weir/internal/cluster/clustertest/counter/cmd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{build, exec.Command("tar", "-C", root, "-cf", dir+"/image.tar", ".")} {
		if out, runErr := cmd.CombinedOutput(); err == nil && runErr != nil {
			err = fmt.Errorf("%v: %w: %s", cmd.Args, runErr, out)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/image.tar"
}

func newPodmanMachine(t *testing.T, dir, name, address string) *podmanMachine {
	t.Helper()
	own, shared, conf := filepath.Join(dir, name+"-store"), filepath.Join(dir, "store"), filepath.Join(dir, name)
	for _, d := range []string{own, shared, conf} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	group := filepath.Base(dir) + "-" + name
	cmd := exec.Command("sh", "-c", holderGroup, "sh", group, own, shared, holderMounts)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // it ends with this process, whichever of its threads has started it
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 3))
	}
	if err != nil {
		t.Fatalf("the namespaces of %s: %v", name, err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); removeGroups(t, group) })
	p := &podmanMachine{machine: &machine{t: t, name: name, dir: conf}, conf: conf, wire: address}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	p.must(err)
	p.holder, err = strconv.Atoi(strings.TrimSpace(string(children)))
	p.must(err)
	p.machine.engine = p
	p.processes, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.holder))
	p.must(err)
	p.enter = []string{"nsenter", "--target", strconv.Itoa(p.holder), "--pid", "--mount", "--net", "--cgroup", "--"}
	// Limits are named since root of a container may not be allowed to raise them.
	for file, text := range map[string]string{
		"containers.conf": fmt.Sprintf("[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\nevents_logger = \"file\"\ntmp_dir = \"%[1]s/tmp\"\n"+
			"[network]\nnetwork_backend = \"netavark\"\nnetwork_config_dir = \"%[1]s/networks\"\n[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n", shared),
		"storage.conf": fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = \"%s/root\"\nrunroot = \"%[1]s/run\"\n", shared),
	} {
		p.must(os.WriteFile(filepath.Join(conf, file), []byte(text), 0o600))
	}
	t.Cleanup(func() {
		p.podman("rm", "--all", "--force", "-t", "0")
		p.podman("rmi", "--all", "--force")
	})
	return p
}

// removeGroups removes a machine's cgroups, whose processes have ended.
func removeGroups(t *testing.T, group string) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + group)
	for _, root := range append(roots, "/sys/fs/cgroup/"+group) {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- { // children first
			var err error
			for range 100 {
				if err = syscall.Rmdir(dirs[i]); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				t.Errorf("remove cgroup %s: %v", dirs[i], err)
			}
		}
	}
}

func run(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}

// in returns a command that runs on the machine.
func (p *podmanMachine) in(args ...string) []string {
	return append(append([]string{}, p.enter...), args...)
}

func (p *podmanMachine) try(args ...string) (string, error) {
	list := p.in(append([]string{"podman"}, args...)...)
	cmd := exec.Command(list[0], list[1:]...)
	cmd.Env = append(os.Environ(), p.helper()...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("podman %v: %w: %s", args, err, errs.String())
	}
	return string(out), err
}

func (p *podmanMachine) podman(args ...string) string {
	p.t.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.t.Errorf("%s: %v", p.name, err)
	}
	return out
}

func (p *podmanMachine) kind() wire.EngineName { return wire.EnginePodman }

func (p *podmanMachine) parts() []string { return []string{"criu", "runc", "podman", "conmon"} }

func (p *podmanMachine) helper() []string {
	return []string{helperPodman + "=" + filepath.Join(p.dir, "archives"), "NETAVARK_FW=iptables",
		"CONTAINERS_CONF=" + p.conf + "/containers.conf", "CONTAINERS_STORAGE_CONF=" + p.conf + "/storage.conf"}
}

func (p *podmanMachine) kill()   {} // it has no daemon
func (p *podmanMachine) revive() {}

func (p *podmanMachine) start(network string) {
	p.t.Helper()
	args := []string{"run", "-d", "--name", moved}
	switch network {
	case "bridge", "":
	case "macvlan":
		args = append(args, "--network", network, "--ip", "10.78.0.50")
	default:
		args = append(args, "--network", network)
	}
	p.podman(append(args, "counter:1", "mib=8", "tcp=1")...)
}

func (p *podmanMachine) remove() { p.podman("rm", "--force", "--ignore", "-t", "0", moved) }

type podmanState struct {
	State struct {
		Running, Paused bool
		Pid             int
	}
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
}

func (p *podmanMachine) state() (s podmanState, err error) {
	text, err := p.try("container", "inspect", "--", moved)
	if err != nil {
		return s, err
	}
	var list []podmanState
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return s, errors.Join(err, fmt.Errorf("%d descriptions", len(list)))
	}
	return list[0], nil
}

func (p *podmanMachine) pid() int {
	s, err := p.state()
	if err != nil || !s.State.Running {
		return 0
	}
	return p.outside(s.State.Pid)
}

// outside returns the process that has a number among the machine's.
func (p *podmanMachine) outside(inner int) int {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		_, rest, ok := strings.Cut(string(text), "\nNSpid:")
		if !ok {
			continue
		}
		line, _, _ := strings.Cut(rest, "\n")
		numbers := strings.Fields(line)
		// this namespace's, the machine's, perhaps the container's
		if len(numbers) < 2 || numbers[1] != strconv.Itoa(inner) {
			continue
		}
		pid, _ := strconv.Atoi(numbers[0])
		if p.under(pid, p.processes) {
			return pid
		}
	}
	return 0
}

// under reports whether a process is in a namespace of processes, or its parents are.
func (p *podmanMachine) under(pid int, own string) bool {
	for pid > 1 {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && ns == own {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return false
		}
		_, fields, _ := strings.Cut(string(stat), ") ")
		pid, _ = strconv.Atoi(strings.Fields(fields)[1])
	}
	return false
}

func (p *podmanMachine) owns(pid int) bool {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return err == nil && ns == p.processes
}

func (p *podmanMachine) clear() {
	archives, _ := filepath.Glob(filepath.Join(p.dir, "archives", "*"))
	for _, file := range archives {
		_ = os.Remove(file)
	}
}

func (p *podmanMachine) reach(network string, f func(string) error) error {
	switch network {
	case "none":
		return nil
	case "host":
		return inNet(p.holder, func() error { return f("127.0.0.1:7000") })
	case "macvlan": // which its own host does not reach
		return inNet(p.other.holder, func() error { return f("10.78.0.50:7000") })
	}
	s, err := p.state()
	if err != nil {
		return err
	}
	for _, n := range s.NetworkSettings.Networks {
		return inNet(p.holder, func() error { return f(n.IPAddress + ":7000") })
	}
	return errors.New("no address")
}

func (p *podmanMachine) left() (list []string) {
	pid := p.pid()
	if pid > 0 {
		list = append(list, rules(pid)...)
	} else if out := strings.TrimSpace(p.podman("ps", "--all", "--quiet")); out != "" {
		list = append(list, "container "+out)
	}
	list = append(list, rules(p.holder)...)
	group := "/sys/fs/cgroup{/*,}/" + filepath.Base(filepath.Dir(p.dir)) + "-" + p.name
	for _, root := range []string{strings.Replace(group, "{/*,}", "/*", 1), strings.Replace(group, "{/*,}", "", 1)} {
		list = append(list, frozen(root+"/*/*")...)
		list = append(list, frozen(root+"/*/*/*")...)
		found, _ := filepath.Glob(root + "/libpod_parent/libpod-*")
		for _, dir := range found {
			if strings.Contains(dir, "libpod-conmon") {
				continue
			}
			if procs, _ := os.ReadFile(dir + "/cgroup.procs"); pid == 0 && len(procs) > 0 {
				list = append(list, dir+" has processes "+strings.Join(strings.Fields(string(procs)), " "))
			}
		}
	}
	for _, name := range []string{"criu", "runc", "podman", "conmon"} {
		if pids := p.pids(name); len(pids) > 0 && !(name == "conmon" && pid > 0 && len(pids) == 1) {
			list = append(list, fmt.Sprintf("processes %v (%s)", pids, name))
		}
	}
	cables := 0
	_ = inNet(p.holder, func() error {
		links, _ := os.ReadFile("/proc/thread-self/net/dev")
		cables = strings.Count(string(links), "veth")
		return nil
	})
	if pid == 0 && cables > 0 {
		list = append(list, fmt.Sprintf("%d cables to no container", cables))
	}
	states, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/runc/*", p.holder))
	if len(states) > 1 || len(states) > 0 && pid == 0 {
		list = append(list, fmt.Sprintf("states of the runtime %v", states))
	}
	archives, _ := filepath.Glob(filepath.Join(p.dir, "archives", "*"))
	return append(list, archives...)
}
