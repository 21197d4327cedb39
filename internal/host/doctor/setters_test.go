// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSetters(t *testing.T) {
	const (
		networkd = "run/systemd/netif/links/7"
		devices  = "run/NetworkManager/devices/7"
		profiles = "etc/NetworkManager/system-connections/"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"no manager": {},
		"networkd without a qdisc": {files: map[string]string{networkd: "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/up.network\n",
			"etc/systemd/network/up.network": "[Match]\nName=up0\n[Network]\nDHCP=ipv4\n"}},
		"networkd with one, one in a file that is added, and a file that is none of its own": {files: map[string]string{
			networkd:                         "NETWORK_FILE=/etc/systemd/network/up.network\nNETWORK_FILE_DROPINS=\"/etc/systemd/network/up.network.d/a.conf\" \"/run/up.network.d/b.conf\"\n",
			"etc/systemd/network/up.network": "[Match]\nName=up0\n# [PIE]\n[CAKE]\nParent=root\nBandwidth=50M\n[FairQueueing]\nParent=1:30\n",
			"etc/systemd/network/up.network.d/a.conf": "[NetworkEmulator]\nDelaySec=1ms\n",
			"run/up.network.d/b.conf":                 "[SFQ]\n[PIE]\n"},
			want: []string{"systemd-networkd: [CAKE] in /etc/systemd/network/up.network", "systemd-networkd: [NetworkEmulator] in /etc/systemd/network/up.network.d/a.conf"}},
		"another device of networkd's": {files: map[string]string{"run/systemd/netif/links/8": "NETWORK_FILE=/etc/systemd/network/up.network\n",
			"etc/systemd/network/up.network": "[CAKE]\nParent=root\n"}},
		"NetworkManager, by the profile's uuid": {files: map[string]string{devices: "[device]\nmanaged=true\nconnection-uuid=11-22\n",
			profiles + "up.nmconnection":    "[connection]\nid=up\nuuid=11-22\n[tc]\nqdisc.root=fq_codel limit 500\n",
			profiles + "other.nmconnection": "[connection]\nuuid=33\ninterface-name=up0\n[tc]\nqdisc.root=sfq\n"},
			want: []string{"NetworkManager: [tc] in /" + profiles + "up.nmconnection"}},
		"NetworkManager, by the device's name": {files: map[string]string{devices: "[device]\nconnection-uuid=11-22\n",
			profiles + "up.nmconnection": "[connection]\ninterface-name=up0\n[tc]\nqdisc.root=fq_codel\n"},
			want: []string{"NetworkManager: [tc] in /" + profiles + "up.nmconnection"}},
		"a profile without a qdisc": {files: map[string]string{devices: "[device]\nconnection-uuid=11-22\n",
			profiles + "up.nmconnection": "[connection]\nuuid=11-22\n[tc]\ntfilter.root=matchall\n"}},
		"NetworkManager leaves the device alone": {files: map[string]string{devices: "[device]\nmanaged=false\n",
			profiles + "up.nmconnection": "[connection]\ninterface-name=up0\n[tc]\nqdisc.root=fq_codel\n"}},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := setters(root, "up0", 7); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSetterOfALink: a manager that sets a qdisc at a link is named, with what to do.
func TestSetterOfALink(t *testing.T) {
	h := healthy()
	h.Links[0].Setters = []string{"systemd-networkd: [CAKE] in /etc/systemd/network/up.network"}
	for _, f := range Examine(h) {
		if f.Level == Warning && strings.Contains(f.Seen, "eth0: ") && strings.Contains(f.Seen, h.Links[0].Setters[0]) && strings.Contains(f.Remedy, "qdisc") {
			return
		}
	}
	t.Errorf("%+v names no %s", Examine(h), h.Links[0].Setters[0])
}

// TestQdiscBelowALink: a qdisc that another program has set at a device that carries what the link
// sends, as at the ports of a bond, is named, with what to do.
func TestQdiscBelowALink(t *testing.T) {
	h := healthy()
	h.Links[0].Below = []string{"eth7: tbf 8001:"}
	for _, f := range Examine(h) {
		if f.Level == Warning && strings.Contains(f.Seen, "eth0: ") && strings.Contains(f.Seen, "eth7: tbf") && strings.Contains(f.Remedy, "tc qdisc del dev eth7 root") {
			return
		}
	}
	t.Errorf("%+v names no eth7", Examine(h))
}
