// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/framing"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// Supported says whether this kernel and this process can run the backend: nil,
// or an error that wraps dataplane.ErrNoSupport or dataplane.ErrPrivilege and
// names the missing feature.
func Supported() error {
	_, err := bestLeaf()
	return err
}

// Leaf names the queue that each workload gets on this kernel: "fq_codel", "sfq" or
// "pfifo", best first. The errors are those of Supported.
func Leaf() (kind string, err error) { return bestLeaf() }

// bestLeaf tries everything that the backend needs, on the loopback device of a
// network namespace made for the purpose, so that nothing on the host changes,
// and returns the best leaf qdisc that the kernel has.
var bestLeaf = sync.OnceValues(func() (kind string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread, and with it the namespace, ends here.
		runtime.LockOSThread()
		switch err = unix.Unshare(unix.CLONE_NEWNET); {
		case errors.Is(err, unix.EPERM):
			err = fmt.Errorf("tc backend: %w: run as root, or with CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF", dataplane.ErrPrivilege)
			return
		case err != nil:
			err = fmt.Errorf("tc backend: make a network namespace to try HTB in: %w", err)
			return
		}
		kind, err = probe()
	}()
	<-done
	return kind, err
})

func probe() (string, error) {
	conn, err := device.Open()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	lo, err := conn.Lookup("lo")
	if err != nil {
		return "", err
	}
	if err := addRoot(conn, lo.Index); err != nil {
		return "", lacks("HTB", "CONFIG_NET_SCH_HTB", "sch_htb", err)
	}
	some := settingsOf(grant{rate: 8e6, ceil: 8e6, quantum: minQuantum}, framing.Framing{}, lo)
	if err := errors.Join(
		setClass(conn, lo.Index, linkMinor, some),
		setClass(conn, lo.Index, hostMinor, some)); err != nil {
		return "", device.Explain("try an HTB class", err)
	}
	if err := setClassifier(conn, lo.Index, plan.Carrier{}); err != nil {
		if errors.Is(err, dataplane.ErrPrivilege) {
			return "", err
		}
		return "", lacks("cls_bpf", "CONFIG_NET_CLS_BPF", "cls_bpf", err)
	}
	for _, kind := range leafKinds {
		if err = setLeaf(conn, lo.Index, plan.ClassID(0), kind, minLeafPackets, 0); err == nil {
			return kind, nil
		}
	}
	return "", lacks("pfifo", "CONFIG_NET_SCH_FIFO", "", err)
}

func lacks(what, option, module string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return device.Explain("try "+what, err)
	}
	remedy := "build it with " + option
	if module != "" {
		remedy = fmt.Sprintf("load module %s, or %s", module, remedy)
	}
	return fmt.Errorf("kernel has no %s: %w; %s: %w", what, dataplane.ErrNoSupport, remedy, err)
}
