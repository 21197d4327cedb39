// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"weir/internal/host/discover/localhttp"
)

// ofIncus asks Incus, or LXD, which has the same API, for its containers and machines. Those of
// another project than the default one have its name before theirs, as they have in the daemon
// itself.
func ofIncus(path string) (map[string]NIC, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	dial := func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) }
	var list instances
	ok, err := localhttp.Get(ctx, dial, "/1.0/instances?recursion=1&all-projects=true", &list)
	if err == nil && !ok {
		err = errors.New("it does not tell its instances")
	}
	return list.nics(), err
}

// instances is the daemon's answer: all of them, with their configuration.
type instances struct {
	Metadata []struct {
		Name    string            `json:"name"`
		Project string            `json:"project"`
		Config  map[string]string `json:"config"`
	} `json:"metadata"`
}

func (l instances) nics() map[string]NIC {
	found := map[string]NIC{}
	for _, instance := range l.Metadata {
		name := instance.Name
		if instance.Project != "" && instance.Project != "default" {
			name = instance.Project + "_" + name
		}
		var nics []string // the daemon's names of them, such as eth0
		for key := range instance.Config {
			if nic, ok := strings.CutPrefix(key, "volatile."); ok && strings.HasSuffix(nic, ".host_name") {
				nics = append(nics, strings.TrimSuffix(nic, ".host_name"))
			}
		}
		slices.SortFunc(nics, natural)
		var devices []string
		for _, nic := range nics {
			devices = append(devices, instance.Config["volatile."+nic+".host_name"])
		}
		note(found, name, devices)
	}
	return found
}

// natural compares names as people count: eth2 before eth10.
func natural(a, b string) int {
	stem := func(s string) string { return strings.TrimRight(s, "0123456789") }
	if stem(a) == stem(b) && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
