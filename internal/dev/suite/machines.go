// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/plan"
)

// kernels are the versions in vm/kernels.txt.
var kernels = []string{"7.3", "6.18"}

// machines makes steps that run in a virtual machine each, in virtual time: their results
// do not depend on how busy this machine is, so that two run at once.
type machines struct {
	folder  string // of test binaries and of what the machines hand out
	timeout int    // seconds of wall time, of one machine
	arch    string // the emulated processor, as Go and Debian call it; "" = amd64
}

func (m machines) binary(pkg string) string {
	return filepath.Join(m.folder, "bin", m.arch, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// group returns what the names of steps begin with.
func (m machines) group() string { return cmp.Or(m.arch, "vm") }

// run returns the command line of vm/run with the options of all steps, and more.
func (m machines) run(name string, options ...string) []string {
	command := []string{"vm/run", "--timeout", strconv.Itoa(m.timeout), "--out", filepath.Join(m.folder, "vm", name)}
	if m.arch != "" {
		command = append(command, "--arch", m.arch)
	}
	return append(command, options...)
}

// tests returns the step that runs a package's test binary on a kernel.
func (m machines) tests(kernel, pkg string, args ...string) step {
	return m.shell(kernel, pkg, "", args...)
}

// shell returns the step of tests after a line of shell, which prepares the machine.
func (m machines) shell(kernel, pkg, prepare string, args ...string) step {
	name := m.group() + "/" + pkg + "-" + kernel
	binary := m.binary(pkg)
	command := append([]string{"./" + filepath.Base(binary), "-test.v=test2json"}, args...)
	if prepare != "" {
		command = []string{"bash", "-c", prepare + ` && exec "$@"`, "bash"}
		command = append(append(command, "./"+filepath.Base(binary), "-test.v=test2json"), args...)
	}
	options := append([]string{"--virtual-time", "--kernel", kernel, "--copy", binary, "--"}, command...)
	return step{Name: name, Place: kernel, Binary: "weir/internal/" + pkg, Builds: []string{pkg}, Arch: m.arch, Command: m.run(name, options...)}
}

// lab returns the step that runs a scenario file on Weir's BPF qdisc, where Weir
// schedules: on another backend it fails. Expectations are about Weir; the figures of a
// peer are a result whether they hold or not.
func (m machines) lab(name, file string, options ...string) step {
	s := m.weir(name, append(append([]string{"run"}, options...), file)...)
	s.Peer = isPeer(options)
	return s
}

// labOn returns the step that runs a scenario file on a kernel.
func (m machines) labOn(kernel, file string, options ...string) step {
	name := strings.TrimSuffix(file, ".yaml") + "-on-" + kernel
	if m.arch != "" {
		name = m.arch + "/" + name
	}
	return on(kernel, m.lab(name, file, options...))
}

// on has a step's machine run a kernel.
func on(kernel string, s step) step {
	s.Command = slices.Insert(s.Command, slices.Index(s.Command, "--virtual-time"), "--kernel", kernel)
	return s
}

// isPeer says whether the options of weir lab run name schedulers, and none of Weir's.
func isPeer(options []string) bool {
	i := slices.Index(options, "--scheduler")
	return i >= 0 && !slices.ContainsFunc(strings.Split(options[i+1], ","), func(name string) bool { return slices.Contains(plan.Schedulers, name) })
}

// weir returns a step with a command of "weir lab" in a machine.
func (m machines) weir(name string, args ...string) step {
	command := slices.Concat([]string{"--virtual-time", "--", "weir", "lab", args[0], "--backend", "bpf"}, args[1:])
	return step{Name: name, Command: m.run(name, command...)}
}

// devices returns the tests of what clouds' kernels lack: WireGuard, netkit, processes in cgroups
// of version 2.
func (m machines) devices() []step {
	return []step{
		alone(m.tests("7.3", "host/doctor", "-test.run", "^Test(Losses|LossesInSharedBlocks|TunnelLosesClasses|UsersOfTheMark|MarkOfWireGuard|SkippedFilters)$")),
		alone(m.tests("7.3", "host/discover", "-test.run", "^TestNetns")),
		alone(m.tests("7.3", "base/cgroup", "-test.run", "^TestInner$")),
	}
}

// alone says that a machine's tests run no program of this tree.
func alone(s step) step {
	s.Inputs = inputs{tests: s.Builds, files: []string{"vm"}}
	return s
}

// kernelSuites returns the packages that touch the kernel, in a machine with the given
// one; less has further arguments for a package. The simulator's tests of dataplane/bpf need
// a compiler and run natively.
func (m machines) kernelSuites(kernel string, less map[string][]string) []step {
	tests := func(pkg string, args ...string) step {
		return m.tests(kernel, pkg, append(args, less[pkg]...)...)
	}
	return []step{
		alone(tests("host/dataplane/bpf", "-test.run", qdiscTests)),
		alone(tests("host/dataplane/mark")),
		tests("host/dataplane/mark/answers"),
		alone(tests("host/dataplane/ifb")),
		alone(tests("host/dataplane/goodput")),
		with("bin/weir-kubernetes", tests("kube", "-test.run", "^TestShares$|^TestCostOfANode$")),
		alone(tests("lab/meter")),
		alone(m.shell(kernel, "cluster/profile", "echo +cpu +memory +io +pids >/sys/fs/cgroup/cgroup.subtree_control", "-test.run", "Real|Perf")),
		m.labOn(kernel, "lab/demo/shares.yaml"),
	}
}

// with has a step's machine have one more file.
func with(file string, s step) step {
	s.Command = slices.Insert(s.Command, slices.Index(s.Command, "--"), "--copy", file)
	return s
}

// agent returns the end-to-end test on a kernel, whose agents must use the BPF qdisc.
func (m machines) agent(kernel string, args ...string) step {
	return m.tests(kernel, "test/e2e", append([]string{"-backend", "bpf"}, args...)...)
}

// documented returns the test of the commands in README and docs. It takes over three
// minutes of CPU time, so that only make test-full runs it here; make test-native does so
// on the fallback.
func (m machines) documented() step {
	s := with("README.md", with("docs", m.agent("7.3", "-test.run", documentedTests)))
	s.Name = "vm/documented-7.3"
	return s
}

const documentedTests = "Documented"

// qdiscTests are those of dataplane/bpf that need a kernel with BPF qdiscs.
const qdiscTests = "^TestPackets|^TestVerified|^TestDeviceComesAgain$"

// What CI runs of the end-to-end tests, each on one kernel: on 6.18 how a qdisc is attached,
// changed, taken away, left behind and found again, on 7.3 part of all else. make test-full runs
// all of them on both.
const (
	agentTests     = "AgentAtRest|Disturbed|Churn|RulesFill|QueuesUnder|DisciplineChanges|Inside|Reservation|TargetsAtRandom|Groups$|GroupRefusals|RequestsBesideBulk|TestVerify$|PastThePort|ManyQuiet|SwapNames|FlowTable|NeighboursOf|AnswersToWhat"
	agentTestsElse = "ACKsGiveWay|SecondAgent|TwoAgents|PolicyChanges|UplinkComesBack|QdiscTakenAway|CleanupAfterKill|KilledUnderLoad|UpgradeUnderLoad|GroupChanges|SecondBridge|CannotBeMended/root_qdisc"
)

// onFormer are those of dataplane/bpf that CI runs on 6.18 alone.
const onFormer = "^TestDeviceComesAgain$|^TestPacketsAreMarked$|^TestPacketsAreWhatTheLineTakes$"

// lessOf has what CI runs of a package on a kernel where that is not all of it. What runs
// natively, on a kernel like 6.18, is left out: the fallback, the neighbours of marks.
var lessOf = map[string]map[string][]string{
	"7.3": {
		"host/dataplane/bpf":  {"-test.skip", onFormer},
		"kube":                {"-test.skip", "^TestCostOfANode$"},
		"host/dataplane/mark": {"-test.skip", "^TestNeighbours$|^TestLeftoversAreReadByTurns$|^TestChurnLeavesNothing$|^TestKernelClassifiesAsPolicyDoes$"},
		"host/dataplane/ifb":  {"-test.skip", "/^tc$|/.*/^tc$|^TestWithAnIFB$|^TestOthersWorkAsWithoutWeir$/^order_[23]$|^TestOthersStayAsTheyAre$/^zone_true$"},
	},
	"6.18": {
		"host/dataplane/bpf":  {"-test.run", "^TestVerified|" + onFormer},
		"kube":                {"-test.skip", "^TestCostOfANode$"},
		"host/dataplane/mark": {"-test.run", "^TestNoWayPastTheQdisc$|^TestContainersAreBornWithoutAWayPast$|^TestNamesOfContainersFillNoTable$|^TestBoundCgroupsThatAreGone$"},
		"host/dataplane/ifb":  {"-test.run", "^TestAdoptAndCleanUp$|^TestWithAnIFB$/^adopt|^TestHeals$", "-test.skip", "/^tc$|/.*/^tc$"},
	},
}

// ci returns the steps of make test-vm, the longest first.
func (m machines) ci() []step {
	steps := []step{
		m.agent("7.3", "-test.run", agentTests),
		m.agent("6.18", "-test.run", agentTestsElse),
		m.openVSwitch(),
		m.tests("7.3", "host/dataplane/tc", "-test.run", "^TestLeaves$"), // of kinds that other kernels lack
		m.lab("lab/bars/latency-110mbit", "lab/bars/latency-110mbit.yaml"),
		m.lab("lab/qcon/fig11-fair", "lab/qcon/fig11.yaml", "--scheduler", "fair"),
		m.lab("lab/qcon/fig11-qcon", "lab/qcon/fig11.yaml", "--scheduler", "qcon"),
	}
	for _, kernel := range kernels {
		steps = append(steps, m.kernelSuites(kernel, lessOf[kernel])...)
	}
	steps = append(steps, m.devices()...)
	arm := m
	arm.arch = "arm64"
	return append(steps, arm.labOn("7.3", "lab/demo/shares.yaml"))
}

// idle has machines take of this one's processors what nothing else wants.
func idle(steps []step) []step {
	for i := range steps {
		steps[i].Idle = true
	}
	return steps
}

// arm64 returns the tests of the kernel side on that processor, on both kernels: the
// qdisc, marking, ingress, the agent where kernels and processors may differ, and what the
// qCon paper's board divides.
func (m machines) arm64() (steps []step) {
	m.arch = "arm64"
	for _, kernel := range kernels {
		steps = append(steps,
			m.agent(kernel, "-test.run", agentTestsElse),
			alone(m.tests(kernel, "host/dataplane/bpf", "-test.run", qdiscTests)),
			alone(m.tests(kernel, "host/dataplane/mark")),
			alone(m.tests(kernel, "host/dataplane/ifb")),
			alone(m.tests(kernel, "host/dataplane/goodput")),
			alone(m.tests(kernel, "lab/meter")),
			m.labOn(kernel, "lab/demo/shares.yaml"),
			m.labOn(kernel, "lab/qcon/fig11.yaml", "--scheduler", "fair,qcon"),
		)
	}
	return steps
}

// drivers returns the tests of what clouds' kernels have no driver for, on Debian's for every
// machine.
func (m machines) drivers(kernel string) step {
	s := m.agent(kernel, "-long", "-test.run", "^TestKindsOfLinks$/^PPPoE$|^TestFramesOfALink$/^PPPoE$")
	s.Name = "vm/drivers-" + kernel
	s.Command = slices.Insert(s.Command, slices.Index(s.Command, "--virtual-time"), "--flavour", "full")
	return s
}

func (m machines) openVSwitch() step { return m.tests("7.3", "host/sdn", "-backend", "bpf") }

// all returns the tests that make test-full runs in machines.
func (m machines) all() []step {
	steps := []step{
		m.agent("7.3", "-long", "-test.skip", documentedTests), m.agent("6.18", "-long", "-test.skip", documentedTests),
		m.documented(), m.openVSwitch(), alone(m.tests("7.3", "host/dataplane/tc", "-instructions")),
	}
	for _, kernel := range kernels {
		steps = append(append(steps, m.kernelSuites(kernel, nil)...), m.drivers(kernel))
	}
	return slices.Concat(steps, m.devices(), []step{m.podman()}, m.arm64())
}

// podman moves containers of a real Podman. These kernels know which pages have changed
// (CONFIG_MEM_SOFT_DIRTY). Time is real: engines wait for the wall clock.
func (m machines) podman() step {
	s := m.shell("7.3", "cluster/migrate/podman", "export WEIR_COUNTER=$PWD/weir-counter")
	s.Alone = true
	real := slices.Index(s.Command, "--virtual-time")
	s.Command = slices.Replace(s.Command, real, real+1, "--real-time", "--image", "podman", "--memory", "3072M", "--copy", "bin/weir-counter")
	return s
}
