// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// attack is what the process of a way out knows. It travels from the test to that process, and
// from its first stage to its second, as JSON.
type attack struct {
	Way      string
	Kind     kind
	Device   string // by which the workload sends
	Uplink   string // the link itself, where the process sees it; "" elsewhere
	From, To net.IP
	FromMAC  net.HardwareAddr
	ToMAC    net.HardwareAddr
	Victim   int // class of the workload with the min
	Nested   int // process in a namespace inside the workload's, from which the packets are sent
	Sends    string
}

// containerCaps are what Docker leaves to root in a container, without NET_RAW.
var containerCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// confine runs this program again with the capabilities that root has in a container of the kind.
func confine(args []string) error {
	x, err := readAttack(args)
	if err != nil {
		return err
	}
	may := append(slices.Clone(containerCaps), unix.CAP_NET_RAW)
	if x.Kind != onHost {
		may = append(may, unix.CAP_NET_ADMIN)
	}
	runtime.LockOSThread()
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(may, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return x.next("way")
}

func readAttack(args []string) (*attack, error) {
	x := &attack{}
	return x, json.Unmarshal([]byte(args[0]), x)
}

// next goes on as another stage, in the nested namespace if there is one.
func (x *attack) next(stage string) error {
	text, err := json.Marshal(x)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := []string{self, childArg, stage, string(text)}
	if x.Nested != 0 {
		command = append(x.enter(), command...)
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, command, os.Environ())
}

// setUp is the first stage inside the workload.
func setUp(args []string) error {
	x, err := readAttack(args)
	if err != nil {
		return err
	}
	if w := wayNamed(x.Way); w.setup != nil {
		if err := w.setup(x); err != nil {
			fmt.Println("error:", err)
			return nil
		}
	}
	return x.next("waysend")
}

// sendWay is the second: it sends three times what the workload may.
func sendWay(args []string) error {
	x, err := readAttack(args)
	if err != nil {
		return err
	}
	open := wayNamed(x.Way).open
	if open == nil {
		open = byUDP(nil)
	}
	one, err := open(x)
	if err == nil {
		err = passing(one(0))
	}
	if err != nil {
		fmt.Println("error:", err)
		return nil
	}
	fmt.Println("ready")
	return pace(3*waysMax, 40, frame, func(n uint64) error { return passing(one(n + 1)) })
}

// passing returns no error for what passes: a queue that is full.
func passing(err error) error {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

func wayNamed(name string) way {
	return ways[slices.IndexFunc(ways, func(w way) bool { return w.name == name })]
}

// do runs commands in the workload's namespace.
func (x *attack) do(commands ...string) error { return runAll(nil, commands) }

// inside runs commands in the nested namespace.
func (x *attack) inside(commands ...string) error { return runAll(x.enter(), commands) }

func (x *attack) enter() []string {
	return []string{"nsenter", "-t", fmt.Sprint(x.Nested), "-U", "-n", "--preserve-credentials", "--"}
}

func runAll(prefix, commands []string) error {
	for _, command := range commands {
		args := append(slices.Clone(prefix), strings.Fields(command)...)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, strings.Join(strings.Fields(string(out)), " "))
		}
	}
	return nil
}

// nest makes a network namespace inside the workload's, with a user namespace that owns it.
// It lasts as long as this process, whatever program that runs.
func (x *attack) nest() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(write.Fd(), unix.F_SETFD, 0); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", childArg, "stay")
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	x.Nested = cmd.Process.Pid
	first := exec.Command("/proc/self/exe", childArg, "stay") // a container's first process stays, too
	first.Stdin = read
	if err := first.Start(); err != nil {
		return err
	}
	read.Close()
	return x.inside("ip link set lo up")
}

// takeOver gives a device the workload's address, and the server's as its neighbour.
func (x *attack) takeOver(device string) error {
	return x.do("ip addr flush dev "+x.Device,
		fmt.Sprintf("ip addr add %s/16 dev %s", x.From, device), "ip link set "+device+" up",
		fmt.Sprintf("ip neigh replace %s lladdr %s dev %s nud permanent", x.To, x.ToMAC, device))
}

// seal returns what bpf/marking/seal.h writes into skb->tc_index for the victim.
func (x *attack) seal() uint32 { return 0x8000 | uint32(x.Victim)<<5 }

// mark returns what the victim's packets have in skb->mark.
func (x *attack) mark() uint32 { return uint32(x.Victim) << 16 }
