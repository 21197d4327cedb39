// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/base/tlsfile/tlstest"
)

// switchAddress is where docs/sdn.md has the switch.
var switchAddress = net.IPv4(10, 0, 0, 7)

// addSwitch starts an Open vSwitch on the host as Debian's unit does, with the bridge s1
// of docs/sdn.md, and puts certificates where that page expects them. Its datapath is
// Open vSwitch's dummy: the conversation with it needs no kernel part, and the agent
// schedules the device up0 of the host.
func (d *documented) addSwitch() {
	d.t.Helper()
	for _, tool := range []string{"ovsdb-server", "ovs-vsctl", "ovsdb-tool"} {
		if _, err := exec.LookPath(tool); err != nil {
			d.t.Skipf("SKIP: %s is not installed; the virtual machine has it", tool)
		}
	}
	for _, dir := range []string{"/etc/openvswitch", "/var/log/openvswitch"} {
		d.hide(dir)
	}
	d.t.Cleanup(func() { os.RemoveAll("/run/openvswitch") })
	d.certificates()
	d.t.Cleanup(d.endSwitch)
	if code, printed := d.run(startSwitch, 0); code != 0 {
		d.t.Fatalf("start Open vSwitch: exit code %d: %s", code, printed)
	}
}

const startSwitch = `set -e
export PATH=$PATH:/usr/sbin:/usr/lib/openvswitch-switch
mkdir -p /run/openvswitch
cd /run/openvswitch
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /etc/openvswitch/conf.db --remote=punix:db.sock --remote=db:Open_vSwitch,Open_vSwitch,manager_options \
	--private-key=db:Open_vSwitch,SSL,private_key --certificate=db:Open_vSwitch,SSL,certificate --ca-cert=db:Open_vSwitch,SSL,ca_cert \
	--pidfile=db.pid --detach --no-chdir --log-file=/var/log/openvswitch/db.log 2>/dev/null
ovs-vsctl --no-wait init
ovs-vswitchd unix:db.sock --enable-dummy=system --pidfile=switch.pid --detach --no-chdir --log-file=/var/log/openvswitch/switch.log 2>/dev/null
ip link add up0 type veth peer name up1
ip link set up0 up
ip link set up1 up
ovs-vsctl add-br s1 -- set bridge s1 fail_mode=secure protocols=OpenFlow10,OpenFlow13 -- add-port s1 h1 -- add-port s1 h4 -- add-port s1 up0
`

// certificates gives the switch and who talks to it their files, by the page's names.
func (d *documented) certificates() {
	d.t.Helper()
	authority := tlstest.New(d.t, "ca")
	ours := authority.Issue(d.t, "ovs")
	theirs := authority.Issue(d.t, "switch", func(c *x509.Certificate) { c.IPAddresses = []net.IP{switchAddress} })
	for to, from := range map[string]string{
		"/etc/openvswitch/sc-privkey.pem": theirs.Key, "/etc/openvswitch/sc-cert.pem": theirs.Cert, "/etc/openvswitch/ca.pem": theirs.CA,
		filepath.Join(d.dir, "ovs.key"): ours.Key, filepath.Join(d.dir, "ovs.pem"): ours.Cert, filepath.Join(d.dir, "ovs-ca.pem"): ours.CA,
	} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// endSwitch ends the daemons, which are this process's in no way but their process ids.
func (d *documented) endSwitch() {
	for _, name := range []string{"switch", "db"} {
		text, err := os.ReadFile("/run/openvswitch/" + name + ".pid")
		if err != nil {
			continue // it was not started
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}
