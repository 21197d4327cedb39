// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/cgroup"
	"weir/internal/base/command"
	"weir/internal/config"
	"weir/internal/core/bound"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/tc"
	"weir/internal/host/rootlock"
)

// toolTimeout bounds each program that is run and each socket that is asked.
const toolTimeout = 10 * time.Second

// Options select the parts of a host that Look reads.
type Options struct {
	File   string   // configuration, "" = config.DefaultPath
	Links  []string // devices, none = those of the configuration, or of the default route
	Socket string   // of the agent
}

// Look reads the host that it runs on. It needs no privilege; without root some of
// what it returns has an error in its place.
func Look(ctx context.Context, o Options) Host {
	h := Host{File: o.File, Socket: o.Socket}
	if h.File == "" {
		h.File = config.DefaultPath
	}
	h.Config = lookConfig(h.File, o.File == "")
	h.Refused = h.Config.Value.Refused()
	h.Kernel = kernelRelease()
	h.Options.Value, h.Options.Err = kernelOptions(h.Kernel)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		h.BTF = fmt.Errorf("the kernel's type information cannot be read: %w", err)
	}
	h.CPUHz.Value, h.CPUHz.Err = rootlock.CPUHz()
	h.JIT = number("/proc/sys/net/core/bpf_jit_enable")
	h.BPF = bpf.Supported()
	h.Fallback.Value, h.Fallback.Err = tc.Leaf()
	h.Links = lookLinks(h.Config, o.Links)
	h.Marks = lookMarks(ctx)
	var links []string
	for _, l := range h.Links {
		links = append(links, l.Name)
	}
	h.Marks.Losing, _, _ = lookLosing(nil, links)
	h.Engines = lookEngines(ctx, h.Config)
	_, err := exec.LookPath("dockerd")
	h.Dockerd = err == nil
	h.Disks = lookDisks(h.Config.Value)
	h.CRIU.Value, h.CRIU.Err = criuVersion(ctx)
	h.Clock = lookClock()
	h.Cgroups = cgroup.Read().Trouble()
	h.Limits = lookLimits()
	h.Agent.Value, h.Agent.Err = api.NewClient(o.Socket).Status(ctx)
	return h
}

// lookConfig reads the file; where it is absent and optional, the defaults count.
func lookConfig(file string, optional bool) Seen[config.Config] {
	c, err := config.Load(file)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return Seen[config.Config]{Value: config.Default()}
	}
	if c.MarkAuto {
		c.MarkMask = uint32(KeptMask(c.StateDir))
	}
	return Seen[config.Config]{c, err}
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// kernelOptions reads how the running kernel was built.
func kernelOptions(release string) (map[string]string, error) {
	if f, err := os.Open("/proc/config.gz"); err == nil {
		defer f.Close()
		text, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("/proc/config.gz: %w", err)
		}
		return readOptions(text)
	}
	f, err := os.Open("/boot/config-" + release)
	if err != nil {
		return nil, fmt.Errorf("neither /proc/config.gz nor %w", err)
	}
	defer f.Close()
	return readOptions(f)
}

// readOptions reads lines such as CONFIG_NET_SCH_BPF=y.
func readOptions(r io.Reader) (map[string]string, error) {
	options := map[string]string{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if name, value, set := strings.Cut(lines.Text(), "="); set && strings.HasPrefix(name, "CONFIG_") {
			options[name] = value
		}
	}
	return options, lines.Err()
}

// number reads a file that holds one.
func number(path string) Seen[int] {
	text, err := os.ReadFile(path)
	if err != nil {
		return Seen[int]{Err: err}
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return Seen[int]{n, err}
}

func criuVersion(ctx context.Context) (string, error) {
	out, err := run(ctx, "criu", "--version")
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "Version: "), "\n")
	return version, err
}

// needsRoot is the failure of a program for a user other than root. Programs say in texts of
// their own that they lack a right, so each such failure counts as fs.ErrPermission.
type needsRoot struct{ error }

// Is implements errors.Is.
func (needsRoot) Is(target error) bool { return target == fs.ErrPermission }

// Unwrap returns the failure.
func (e needsRoot) Unwrap() error { return e.error }

// run returns the output of a program. Where the program fails, the error ends with the
// first line of its message.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	out, message := printed{most: bound.Rules}, printed{most: bound.Policy}
	cmd := command.New(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &message
	err := cmd.Run()
	var exit *exec.ExitError
	if out.size > out.most {
		err = &bound.Error{What: "output of " + name, Has: out.size, Max: out.most, Unit: "bytes", Remedy: "shorten the rules, or name bits for mark_mask"}
	} else if errors.As(err, &exit) {
		first, _, _ := strings.Cut(strings.TrimSpace(string(message.text)), "\n")
		err = fmt.Errorf("%s: %w: %s", name, err, first)
		if os.Geteuid() != 0 {
			err = needsRoot{err}
		}
	}
	return out.text, err
}

// printed is the beginning of what a program prints, of at most so many bytes, and the size of all.
type printed struct {
	text []byte
	size int
	most int
}

// Write implements io.Writer.
func (p *printed) Write(b []byte) (int, error) {
	p.text = append(p.text, b[:min(len(b), p.most-len(p.text))]...)
	p.size += len(b)
	return len(b), nil
}

func lookClock() Seen[KernelClock] {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return Seen[KernelClock]{KernelClock{Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, MaxErrorUsec: t.Maxerror}, err}
}

func lookLimits() Limits {
	hard := func(resource int) uint64 {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) != nil {
			return ^uint64(0)
		}
		return l.Max
	}
	return Limits{Memlock: hard(unix.RLIMIT_MEMLOCK), OpenFiles: hard(unix.RLIMIT_NOFILE),
		UnprivilegedBPF: number("/proc/sys/kernel/unprivileged_bpf_disabled")}
}

// deviceNames returns the network devices of this namespace.
func deviceNames() []string {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, dev := range list {
		names[i] = dev.Name
	}
	return names
}
