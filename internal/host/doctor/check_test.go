// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/safepath"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/rootlock"
)

const usual = uint32(plan.UsualMask)

// healthy returns a host that has all it needs: Linux 7.3, one link, Docker.
func healthy() Host {
	c := config.Default()
	c.Path = "/etc/weir/weir.yaml"
	c.Links = []config.Link{config.DefaultLink("eth0", 95e6)}
	return Host{
		Kernel:   "7.3.0+deb14-amd64",
		Options:  Seen[map[string]string]{Value: map[string]string{"CONFIG_NET_SCH_BPF": "y"}},
		JIT:      Seen[int]{Value: 1},
		Fallback: Seen[string]{Value: "fq_codel"},
		CPUHz:    Seen[uint64]{Value: 2e9},
		File:     c.Path,
		Config:   Seen[config.Config]{Value: c},
		Links: []Link{{Name: "eth0", Asked: true, Capacity: 95e6, Root: Seen[string]{Value: "fq_codel"}, TxQueues: 1,
			SpeedMbps: 1000, GSO: 65536, SplitOver: 14250}},
		Engines: []EngineSocket{{Name: "docker", Socket: "/var/run/docker.sock", Version: Seen[string]{Value: "28.5.2"}}},
		CRIU:    Seen[string]{Value: "4.2.1"},
		Clock:   Seen[KernelClock]{Value: KernelClock{Synchronised: true, MaxErrorUsec: 12000}},
		Limits:  Limits{Memlock: math.MaxUint64, OpenFiles: 524288, UnprivilegedBPF: Seen[int]{Value: 2}},
		Disks:   []Disk{{Path: "/var/lib/weir"}, {Path: "/var/log/weir"}},
		Agent:   Seen[api.Status]{Value: api.Status{Version: "1.0"}},
		Socket:  "/run/weir/weir.sock",
	}
}

// A steered link whose long packets are not split is warned of.
func TestWholePackets(t *testing.T) {
	l := healthy().Links[0]
	l.Whole = true // no agent has made the devices yet
	if f := l.offload(); len(f) != 1 || f[0].Level != OK {
		t.Errorf("not steered: %+v", f)
	}
	l.RootKind = RootOurs
	if f := l.offload(); len(f) != 1 || f[0].Level != Warning || f[0].Remedy == "" {
		t.Errorf("steered: %+v", f)
	}
}

func TestHealthyHost(t *testing.T) {
	for _, f := range Examine(healthy()) {
		if f.Level != OK || f.Remedy != "" {
			t.Errorf("%+v; the host has all it needs", f)
		}
	}
}

// The cost of a packet that the text quotes is the recorded one, with where it is from.
func TestSpeedQuotesTheRecord(t *testing.T) {
	cost := rootlock.Counted
	h := healthy()
	text := h.Links[0].speed(plan.BackendBPF, h.CPUHz)[0].Seen
	for _, want := range []string{fmt.Sprintf("%.0f instructions", cost.Instructions), cost.Kernel, cost.Date, cost.Commit[:12]} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	h.Links[0].Capacity = uint64(rootlock.Of(plan.BackendBPF, 2e9).Rate(policy.FullFrame))
	h.Links[0].SpeedMbps = 100000
	if f := h.Links[0].speed(plan.BackendBPF, h.CPUHz)[0]; f.Level != OK {
		t.Errorf("at the limit of one lock: %+v", f)
	}
	h.Links[0].Capacity = h.Links[0].Capacity * 101 / 100
	if f := h.Links[0].speed(plan.BackendBPF, h.CPUHz)[0]; f.Level != Warning {
		t.Errorf("one per cent above it: %+v", f)
	}
	f := h.Links[0].speed(plan.BackendBPF, Seen[uint64]{Err: errors.New("/proc/cpuinfo has none")})[0]
	if f.Level != OK || !strings.Contains(f.Seen, "how many cycles a CPU of this host has in that time is not known: /proc/cpuinfo has none") {
		t.Errorf("of a CPU that does not say its clock: %+v", f)
	}
}

func TestEveryCheckSpeaks(t *testing.T) {
	for name, h := range map[string]Host{"healthy": healthy(), "nothing is known": {}} {
		var seen []string
		for _, f := range Examine(h) {
			if f.Seen == "" || strings.Contains(f.Seen+f.Remedy, "\n") {
				t.Errorf("%s: %+v is not one line", name, f)
			}
			if f.Level == Fails && f.Remedy == "" || f.Level == Warning && f.Remedy == "" {
				t.Errorf("%s: %+v has no remedy", name, f)
			}
			seen = append(seen, f.Check)
		}
		for _, c := range checks {
			if !slices.Contains(seen, c.name) {
				t.Errorf("%s: check %s says nothing", name, c.name)
			}
		}
	}
}

// TestChecks changes one thing of the healthy host and says which finding has to
// follow; all others stay ok.
func TestChecks(t *testing.T) {
	noBPF := fmt.Errorf("%w: it has no BPF qdiscs", dataplane.ErrNoSupport)
	cluster := func(h *Host) { h.Config.Value.Cluster.Manager = "10.0.0.1:7470" }
	for _, tt := range []struct {
		name         string
		change       func(*Host)
		check        string
		level        Level
		seen, remedy string // parts of the texts
	}{
		{"old kernel", func(h *Host) { h.Kernel = "6.12.1-amd64" }, "kernel", Warning, "older than BPF qdiscs", "6.16"},
		{"old kernel, BPF demanded", func(h *Host) { h.Kernel, h.Config.Value.Backend = "6.12.1", plan.BackendBPF }, "kernel", Fails, "6.12.1", "6.16"},
		{"no release", func(h *Host) { h.Kernel = "" }, "kernel", Unknown, `""`, "uname"},
		{"option not set", func(h *Host) { h.Options.Value, h.BPF = nil, noBPF }, "BPF qdisc", Warning, "CONFIG_NET_SCH_BPF is not set; probe: ", "trixie-backports"},
		{"probe fails, BPF demanded", func(h *Host) { h.BPF, h.Config.Value.Backend = noBPF, plan.BackendBPF }, "BPF qdisc", Fails, "CONFIG_NET_SCH_BPF=y; probe: ", "6.16"},
		{"options unreadable", func(h *Host) { h.Options.Err, h.BPF = fs.ErrNotExist, noBPF }, "BPF qdisc", Warning, "cannot be looked up", "6.16"},
		{"no BTF", func(h *Host) { h.BTF = errors.New("cannot be read") }, "BTF", Warning, "cannot be read", "CONFIG_DEBUG_INFO_BTF"},
		{"JIT off", func(h *Host) { h.JIT.Value = 0 }, "JIT", Warning, "is 0", "sysctl"},
		{"JIT hidden", func(h *Host) { h.JIT.Err = fs.ErrPermission }, "JIT", Unknown, "permission", "root"},
		{"no HTB, needed", func(h *Host) {
			h.BPF, h.Fallback.Err = noBPF, errors.New("kernel has no HTB")
			h.Config.Value.Backend = plan.BackendTC
		}, "fallback", Fails, "no HTB", "modprobe"},
		{"coarse leaf, demanded", func(h *Host) { h.Fallback.Value, h.Config.Value.Backend = "pfifo", plan.BackendTC }, "fallback", Warning, "pfifo", "sch_fq_codel"},
		{"fallback not tried", func(h *Host) { h.Fallback.Err = dataplane.ErrPrivilege }, "fallback", Unknown, "not permitted", "root"},
		{"file of another user", func(h *Host) {
			h.Refused = []config.UnsafeFile{{NamedFile: config.NamedFile{Field: "tell.command.run", Path: "/srv/ops/handler"}, Why: &safepath.Error{At: "/srv/ops", Owner: 1000, Mode: fs.ModeDir | 0o775}}}
		}, "configuration", Fails, "tell.command.run: an agent of root refuses /srv/ops/handler: folder /srv/ops belongs to uid 1000 and has mode 0775", "chown root:root /srv/ops"},
		{"bad file", func(h *Host) { h.Config.Err = errors.New("weir.yaml:2: wrong\nweir.yaml:3: worse") }, "configuration", Fails, "weir.yaml:2: wrong (and 1 more)", "weir config check"},
		{"hidden file", func(h *Host) { h.Config.Err = fs.ErrPermission }, "configuration", Unknown, "permission", "root"},
		{"no link", func(h *Host) { h.Links = nil }, "link", Warning, "no link", "--link"},
		{"link is missing", func(h *Host) { h.Links[0].Missing = "eth0: no such network device" }, "link", Fails, "no such", "correct"},
		{"foreign qdisc", func(h *Host) { h.Links[0].Root.Value, h.Links[0].RootKind = "fq 8001:", RootForeign }, "link", Fails, "fq 8001: was set by another program", "force"},
		{"foreign qdisc on a link that the configuration does not name", func(h *Host) { h.Links[0].RootKind, h.Links[0].Asked = RootForeign, false }, "link", Warning, "another program", "--force"},
		{"capacity above the device's", func(h *Host) { h.Links[0].Capacity = 2e9 }, "link", Warning, "2 Gbit/s, the device has 1 Gbit/s", "950mbit"},
		{"more than one lock carries", func(h *Host) { h.Links[0].Capacity, h.Links[0].SpeedMbps = 40e9, 40000 }, "link", Warning, "40 Gbit/s in full frames is 3.3 million packets a second, and one root qdisc carries ", "tso"},
		{"more than the fallback's lock carries", func(h *Host) {
			h.Links[0].Capacity, h.Links[0].SpeedMbps, h.Config.Value.Backend = 15e9, 25000, plan.BackendTC
		}, "link", Warning, "15 Gbit/s in full frames is 1.24 million packets a second, and one root qdisc carries ", "tso"},
		{"more than one lock carries, where there was one for each queue", func(h *Host) {
			h.Links[0].Capacity, h.Links[0].SpeedMbps, h.Links[0].Former = 40e9, 40000, device.Former{Kind: "mq", Leaf: "fq", Queues: 16}
		}, "link", Warning, "; mq with fq has a lock for each of 16 transmit queues", "leave the link to mq with fq"},
		{"more than one lock carries, with Weir's in place of many", func(h *Host) {
			h.Links[0].Capacity, h.Links[0].SpeedMbps, h.Links[0].Former = 40e9, 40000, device.Former{Kind: "mq", Leaf: "fq", Queues: 16}
			h.Links[0].RootKind = RootOurs
		}, "link", Warning, "; mq with fq was there before and has a lock for each of 16 transmit queues", "take the link out of weir.yaml, which gives it back to mq with fq"},
		{"qdisc hidden", func(h *Host) { h.Links[0].Root.Err = fs.ErrPermission }, "link", Unknown, "root qdisc", "root"},
		{"a WireGuard tunnel", func(h *Host) { h.Marks.Losing = []Losing{{Name: "wg0", Kind: "wireguard"}} }, "mark", Warning, "wg0: a WireGuard tunnel", "inside of the workload"},
		{"a switch of Open vSwitch", func(h *Host) { h.Marks.Losing = []Losing{{Name: "ovs0", Kind: "openvswitch"}} }, "mark", Warning, "ovs0: packets that the daemon of Open vSwitch", "no rule here uses 0xfffe0000"},
		{"calico is here", func(h *Host) { h.Marks.Products, h.Config.Value.MarkMask = []string{"calico"}, usual }, "mark", Warning, "calico is here, which may use 0xffff0000", "mark_mask: 0xfffe in weir.yaml, enough for 4095"},
		{"cilium is here", func(h *Host) { h.Marks.Products, h.Config.Value.MarkMask = []string{"cilium"}, usual }, "mark", Warning, "cilium is here, which may use 0xffff0000", "no mark_mask helps where Cilium assigns the whole mark"},
		{"cilium is here, and Weir has the bits that its magic numbers leave", func(h *Host) { h.Marks.Products, h.Config.Value.MarkMask = []string{"cilium"}, 0xf000 }, "mark", Warning, "cilium is here, which may use 0xf000", "no mark_mask helps"},
		{"a rule takes all bits", func(h *Host) {
			h.Config.Value.MarkMask = usual
			h.Marks.Users = []MarkUser{{Rule: "-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff", Bits: allBits}, {Rule: "again", Bits: 0x20000}, {Rule: "no clash", Bits: 1}}
		}, "mark", Warning, "writes 0xffff0000 of Weir's bits 0xffff0000, which packets without a seal (docs/qdisc.md) need for their class: -A PREROUTING -j MARK --set-xmark 0x1/0xffffffff and 1 more", "no run of bits is free"},
		{"a rule compares", func(h *Host) {
			h.Config.Value.MarkMask = usual
			h.Marks.Users = []MarkUser{{Rule: "ip rule", Bits: 0x10000, Reads: true}}
		}, "mark", Warning, "compares 0x10000", "mark_mask: 0xfffe0000"},
		{"the agent is to choose bits, and there are none", func(h *Host) {
			h.Config.Value.MarkAuto, h.Marks.Users = true, []MarkUser{{Rule: "ip rule", Bits: allBits, Reads: true}}
		}, "mark", Warning, "leaves no run of 4", "a mask"},
		{"rules are hidden", func(h *Host) { h.Marks.Unread, h.Config.Value.MarkMask = []error{errors.New("nft: no")}, usual }, "mark", Unknown, "nft: no", "root"},
		{"no tool shows rules", func(h *Host) { h.Marks.Unread, h.Config.Value.MarkMask = []error{errNoReader}, usual }, "mark", Unknown, "neither", "install"},
		{"a full disk", func(h *Host) { h.Disks[1].Trouble = "the disk is full" }, "disk", Fails, "/var/log/weir: the disk is full", "make room"},
		{"a flowtable", func(h *Host) { h.Marks.Flowtables = []string{"inet f ft (eth0, lan0)"} }, "flowtable", Warning, "inet f ft (eth0, lan0)", "flow add"},
		{"no carrier", func(h *Host) { h.Links[0].Down = "the device has no carrier" }, "link", Fails, "eth0: the device has no carrier", "ip link set eth0 up"},
		{"docker that the file names is not there", func(h *Host) { h.Engines, h.Config.Value.Docker.Asked = nil, true }, "engine", Fails, "no socket", "enabled: false"},
		{"docker is installed and does not run", func(h *Host) { h.Engines, h.Dockerd = nil, true }, "engine", Fails, "no socket /var/run/docker.sock", "enabled: false"},
		{"docker is silent", func(h *Host) { h.Engines[0].Version.Err = errors.New("refused") }, "engine", Fails, "does not answer", "systemctl status docker"},
		{"docker is hidden", func(h *Host) { h.Engines[0].Version.Err = fs.ErrPermission }, "engine", Unknown, "docker", "root"},
		{"old CRIU in a cluster", func(h *Host) { cluster(h); h.CRIU.Value = "3.17" }, "CRIU", Warning, "older than 4.2", "install"},
		{"no CRIU in a cluster", func(h *Host) { cluster(h); h.CRIU = Seen[string]{Err: fs.ErrNotExist} }, "CRIU", Warning, "cannot be run", "install"},
		{"clock runs free in a cluster", func(h *Host) { cluster(h); h.Clock.Value.Synchronised = false }, "clock", Warning, "not synchronised", "timesyncd"},
		{"clock may be far off in a cluster", func(h *Host) { cluster(h); h.Clock.Value.MaxErrorUsec = 15_500_000 }, "clock", Warning, "wrong by 16s", "timesyncd"},
		{"cgroups of version 1", func(h *Host) { h.Cgroups = "this host has version 1; boot with x" }, "cgroups", Warning, "this host has version 1", "boot with x"},
		{"locked memory on an old kernel", func(h *Host) { h.Kernel, h.Limits.Memlock = "5.10.0", 65536 }, "limits", Warning, "65536 bytes", "LimitMEMLOCK"},
		{"few files", func(h *Host) { h.Limits.OpenFiles = 256 }, "limits", Warning, "256", "LimitNOFILE"},
		{"BPF for everybody", func(h *Host) { h.Limits.UnprivilegedBPF.Value = 0 }, "limits", Warning, "every user", "sysctl"},
		{"agent in trouble", func(h *Host) {
			h.Agent.Value.Problems = []event.Fault{{Severity: event.Error, Text: "link eth0: not steered", Remedy: "wait"}}
		}, "agent", Fails, "link eth0", "wait"},
		{"agent is silent", func(h *Host) { h.Agent.Err = errors.New("did not answer") }, "agent", Fails, "did not answer", "journalctl"},
		{"agent is hidden", func(h *Host) { h.Agent.Err = api.ErrNotPermitted }, "agent", Unknown, "permission", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := healthy()
			tt.change(&h)
			found := false
			for _, f := range Examine(h) {
				if f.Level == OK || f.Check != tt.check && (tt.check == "kernel" || tt.check == "BPF qdisc" || h.Kernel != healthy().Kernel || h.BPF != nil) {
					continue // another check may rightly speak of the same kernel
				}
				if f.Check != tt.check {
					t.Errorf("%+v; only check %s was touched", f, tt.check)
					continue
				}
				found = true
				if f.Level != tt.level || !strings.Contains(f.Seen, tt.seen) || !strings.Contains(f.Remedy, tt.remedy) {
					t.Errorf("%+v, want level %s, %q and remedy %q", f, tt.level, tt.seen, tt.remedy)
				}
			}
			if !found {
				t.Errorf("check %s says that all is ok", tt.check)
			}
		})
	}
}

// TestHarmless has findings that are no problem on a host that does not use the part.
func TestHarmless(t *testing.T) {
	for name, change := range map[string]func(*Host){
		"no HTB beside BPF":                 func(h *Host) { h.Fallback.Err = errors.New("kernel has no HTB") },
		"no CRIU outside a cluster":         func(h *Host) { h.CRIU = Seen[string]{Err: fs.ErrNotExist} },
		"free clock, no cluster":            func(h *Host) { h.Clock.Value.Synchronised = false },
		"kube-proxy":                        func(h *Host) { h.Marks.Products = []string{"kube-proxy"} },
		"no engine here":                    func(h *Host) { h.Engines = nil },
		"no engine wanted":                  func(h *Host) { h.Engines, h.Config.Value.Docker.Enabled = nil, false },
		"no agent":                          func(h *Host) { h.Agent.Err = api.ErrNoAgent },
		"foreign qdisc with force":          func(h *Host) { h.Links[0].RootKind, h.Links[0].Force = RootForeign, true },
		"many queues":                       func(h *Host) { h.Links[0].Root.Value, h.Links[0].TxQueues = "mq", 8 },
		"no file":                           func(h *Host) { h.Config.Value.Path = "" },
		"a kernel without the JIT's switch": func(h *Host) { h.JIT.Err = fs.ErrNotExist },
	} {
		h := healthy()
		change(&h)
		for _, f := range Examine(h) {
			if f.Level != OK {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// A user other than root is told to run doctor as root where a program failed, whatever the
// program said; root is not.
func TestRemedyForPrograms(t *testing.T) {
	_, err := run(t.Context(), "sh", "-c", "echo Operation not permitted >&2; exit 1")
	if err == nil || err.Error() != "sh: exit status 1: Operation not permitted" {
		t.Fatalf("the failure is %v", err)
	}
	want := "run weir doctor as root"
	if os.Geteuid() == 0 {
		want = ""
	}
	if got := remedyFor(err); got != want {
		t.Errorf("remedy %q, want %q", got, want)
	}
	if got := remedyFor(needsRoot{err}); got != "run weir doctor as root" {
		t.Errorf("remedy %q for a user without rights", got)
	}
	if got := remedyFor(fmt.Errorf("qdisc: %w", unix.EPERM)); got != "run weir doctor as root" {
		t.Errorf("remedy %q for EPERM", got)
	}
}

// Without mark_mask no user of the mark matters, and Cilium only takes room.
func TestMarksOfOthers(t *testing.T) {
	h := healthy()
	h.Marks.Products, h.Marks.Users = []string{"cilium"}, []MarkUser{{Rule: "all", Bits: allBits}}
	for _, f := range marks(h) {
		if f.Level != OK || !strings.Contains(f.Seen, "no bit of the mark (others use 0xffffffff)") || !strings.Contains(f.Seen, "room for 1023 workloads and for no queues") {
			t.Errorf("%+v", f)
		}
	}
}
