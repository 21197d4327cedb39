// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// answerMost bounds what is read of a daemon's answer, in bytes.
const answerMost = 64 << 20

// ofIncus asks Incus, or LXD, which has the same API, for its containers and machines. Those of
// another project than the default one have its name before theirs, as they have in the daemon
// itself.
func ofIncus(path string) (map[string]NIC, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://incus/1.0/instances?recursion=1&all-projects=true", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerMost))
	if err != nil {
		return nil, err
	}
	return parseIncus(text)
}

// parseIncus reads the list of instances with their configuration.
func parseIncus(text []byte) (map[string]NIC, error) {
	var answer struct {
		Metadata []struct {
			Name    string            `json:"name"`
			Project string            `json:"project"`
			Config  map[string]string `json:"config"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, err
	}
	found := map[string]NIC{}
	for _, instance := range answer.Metadata {
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
	return found, nil
}

// natural compares names as people count: eth2 before eth10.
func natural(a, b string) int {
	stem := func(s string) string { return strings.TrimRight(s, "0123456789") }
	if stem(a) == stem(b) && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
