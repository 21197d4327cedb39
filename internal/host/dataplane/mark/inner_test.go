// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os/exec"
	"syscall"
	"testing"

	"weir/internal/base/cgroup"
	"weir/internal/base/nsthread"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/group"
	"weir/internal/host/dataplane/mark/marktest"
)

// The namespace of a workload is found, too, if its first processes have moved to others.
func TestInnerNamespaceOfLaterProcesses(t *testing.T) {
	netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	port := plan.Port{Cgroup: marktest.Cgroup(t), Class: 6}
	own, moved := netnstest.New(t), netnstest.New(t)
	for i := range group.MostProcesses + 1 {
		in := moved
		if i == group.MostProcesses {
			in = own
		}
		cmd := exec.Command("sh", "-c", "echo $$ >"+port.Cgroup+"/cgroup.procs && exec sleep 60")
		must(t, nsthread.InPath(in.Path(), cmd.Start))
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		until(t, func() bool { return len(cgroup.Some(port.Cgroup, group.MostProcesses)) > min(i, group.MostProcesses-1) })
	}
	var stat syscall.Stat_t
	must(t, syscall.Stat(own.Path(), &stat))
	until(t, func() bool { return sealer{m}.namespaces(plan.State{Ports: []plan.Port{port}})[int(stat.Ino)] != "" })
}
