// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/host/dataplane"
	"weir/internal/host/dump"
)

// Conn asks and tells the kernel about the devices of one network namespace:
// the one that the opening thread was in. Later calls may come from any thread.
type Conn struct {
	links *netlink.Handle  // devices
	route *nl.SocketHandle // everything of tc, as raw attributes
	inode uint64           // of the namespace
	asks  asks             // what is asked every second

	// Wire is added to the Tag of each device that is looked up, see dataplane.Options.
	Wire int

	takenBack takenBack
}

// asks is an Asker for several goroutines.
type asks struct {
	sync.Mutex
	*dump.Asker
}

// Open connects to the calling thread's network namespace.
func Open() (*Conn, error) {
	inode, err := netnsInode("")
	if err != nil {
		return nil, fmt.Errorf("identify the network namespace: %w", err)
	}
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	socket, err := nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		links.Close()
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// A kernel that never answers must not hang the agent.
	if err := socket.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		links.Close()
		socket.Close()
		return nil, fmt.Errorf("bound the wait on a netlink socket: %w", err)
	}
	// The kernel's own words in errors. Old kernels have none: not worth failing for.
	_ = socket.SetExtAck(true)
	if port, err := socket.GetPid(); err == nil {
		asking.Store(port, true)
	}
	asker, err := dump.NewAsker()
	if err != nil {
		links.Close()
		socket.Close()
		return nil, err
	}
	return &Conn{links: links, route: &nl.SocketHandle{Socket: socket}, inode: inode, asks: asks{Asker: asker}}, nil
}

// OpenNetns connects to the network namespace at path (/proc/PID/ns/net,
// /run/netns/NAME); "" is the calling thread's own.
func OpenNetns(path string) (*Conn, error) {
	if path == "" {
		return Open()
	}
	target, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	defer target.Close()
	var conn *Conn
	if err := nsthread.In(target, func() (err error) { conn, err = Open(); return err }); err != nil {
		return nil, explain("network namespace "+path, err)
	}
	return conn, nil
}

// Netns returns the inode of the network namespace.
func (c *Conn) Netns() uint64 { return c.inode }

// Close closes the sockets. The kernel keeps what was set.
func (c *Conn) Close() error {
	c.links.Close()
	if port, err := c.route.Socket.GetPid(); err == nil {
		asking.Delete(port)
	}
	c.route.Close()
	c.asks.Close()
	return nil
}

// asking has the netlink ports of all Conns by which they ask and tell about qdiscs and filters.
var asking sync.Map

// Asked reports whether a notice of the kernel, by the port in its header, is about what a Conn of
// this process has asked or told: the kernel answers Root with a notice to all who listen.
func Asked(port uint32) bool {
	_, asked := asking.Load(port)
	return asked
}

// Do sends one request of type typ (unix.RTM_NEWQDISC, ...) with the given
// flags and returns the bodies of the answers. It is exported for the parts of
// tc that only one backend uses.
func (c *Conn) Do(typ, flags int, msg *nl.TcMsg, attrs ...*nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(typ, flags)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: c.route}
	req.AddData(msg)
	for _, attr := range attrs {
		req.AddData(attr)
	}
	return dump.Whole(func() ([][]byte, error) { return req.Execute(unix.NETLINK_ROUTE, 0) })
}

// explain turns the errno that a person without privilege gets into
// ErrPrivilege with a remedy; other errors are only given their context.
func explain(doing string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%s: %w: run as root, or with CAP_NET_ADMIN and CAP_BPF", doing, dataplane.ErrPrivilege)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Explain is explain for the backends: it maps EPERM to dataplane.ErrPrivilege
// and ENODEV to dataplane.ErrNoDevice.
func Explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%s: %w", doing, dataplane.ErrNoDevice)
	}
	return explain(doing, err)
}

// Reason returns the first line of what Explain says, as a sentence.
func Reason(doing string, err error) string {
	reason, _, _ := strings.Cut(Explain(doing, err).Error(), "\n")
	return reason + "."
}
