// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// criuChain is the name of CRIU's chain among those of iptables. Its tables of nftables, such
// as "inet CRIU-4711", begin with it too.
const criuChain = "CRIU"

// unlock removes CRIU's rules from the network namespace of a process, and says whether there
// were any. CRIU makes them by iptables of either kind, or by nftables.
func unlock(ctx context.Context, p EngineNamespace, pid int) (took bool, err error) {
	path := fmt.Sprintf("/proc/%d/ns/net", pid)
	chains, err := chainsIn(path)
	if err != nil {
		return false, err
	}
	tables := map[chain]bool{}
	for _, c := range chains {
		switch {
		case c.family == unix.NFPROTO_INET && strings.HasPrefix(c.table, criuChain):
			tables[chain{family: c.family, table: c.table}] = true
		case c.family == unix.NFPROTO_IPV4 && c.name == criuChain:
			took = flush(ctx, p, path, "iptables", "iptables-nft") || took
		case c.family == unix.NFPROTO_IPV6 && c.name == criuChain:
			took = flush(ctx, p, path, "ip6tables", "ip6tables-nft") || took
		}
	}
	for t := range tables {
		if err := nsthread.InPath(path, func() error { return deleteTable(t.family, t.table) }); err != nil {
			return took, fmt.Errorf("remove CRIU's table %s: %w", t.table, err)
		}
		took = true
	}
	// To ask iptables-legacy for a table that a namespace does not have would make it.
	for names, tools := range map[string][]string{
		"ip_tables_names": {"iptables-legacy", "iptables"}, "ip6_tables_names": {"ip6tables-legacy", "ip6tables"},
	} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, names))
		if err == nil && slices.Contains(strings.Fields(string(text)), "filter") {
			took = flush(ctx, p, path, tools...) || took
		}
	}
	left, err := chainsIn(path)
	if err == nil && slices.ContainsFunc(left, func(c chain) bool {
		return strings.HasPrefix(c.name, criuChain) || strings.HasPrefix(c.table, criuChain)
	}) {
		err = fmt.Errorf("rules of CRIU's in its network namespace drop its packets; iptables of the engine's host cannot remove them")
	}
	return took, err
}

// flush empties CRIU's chain first, from which on packets pass, and then removes it. Of several
// programs for the same rules the first is tried that is there and finds the chain.
func flush(ctx context.Context, p EngineNamespace, netns string, tools ...string) bool {
	for _, tool := range tools {
		run := func(args ...string) bool {
			return p.Command(ctx, append([]string{"nsenter", "--net=" + netns, "--", tool, "-w"}, args...)...).Run() == nil
		}
		if !run("-F", criuChain) {
			continue
		}
		for _, hook := range []string{"INPUT", "OUTPUT"} {
			for run("-D", hook, "-j", criuChain) {
			}
		}
		return run("-X", criuChain)
	}
	return false
}

func chainsIn(netns string) (list []chain, err error) {
	err = nsthread.InPath(netns, func() error {
		list, err = listChains()
		return err
	})
	return list, err
}
