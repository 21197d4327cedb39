// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/test/goldentest"
)

// kind is how a workload is connected, and with it what its root may do.
type kind string

const (
	onPort    kind = "port"    // a network namespace behind a veth: NET_ADMIN and NET_RAW in it
	onHost    kind = "host"    // the host's network, known by its cgroup: NET_RAW
	onMacvlan kind = "macvlan" // a namespace with a macvlan, known by its cgroup: NET_ADMIN and NET_RAW in it
)

var everyKind = []kind{onPort, onHost, onMacvlan}

// ownNetwork are the kinds whose root may change devices, filters and rules of its network.
var ownNetwork = []kind{onPort, onMacvlan}

// end is how a way out ends.
type end string

const (
	charged    end = "charged"    // the packets count in the workload's class, within its max
	refused    end = "refused"    // Weir does not begin what would be one
	impossible end = "impossible" // the kernel does not permit it
	notHeld    end = "not held"   // the packets pass the workload's limits
)

// way is something that a workload may try to get out of its class or past its max.
type way struct {
	name  string
	kinds []kind
	how   string // for docs/security.md
	end   end
	// condition is when a way that is not held exists.
	condition string
	// setup prepares the network from inside the workload; nil = nothing is to be prepared.
	setup func(x *attack) error
	// open returns the function that sends one packet; nil = by a UDP socket.
	open func(x *attack) (send, error)
	// elsewhere names the test that tries the way, if TestWaysOut cannot.
	elsewhere string
	// after is done by the test, outside, once the sender is ready.
	after func(r *run)
}

// send sends packet n.
type send func(n uint64) error

// ways are all of them. Each runs on both backends, as root of a container with the
// capabilities that its kind has; user namespaces are allowed.
var ways = slices.Concat(socketWays, multicastWays, packetWays, ipv6Ways, filterWays, deviceWays, hostDeviceWays, timeWays)

// waysTable returns the table of docs/security.md.
func waysTable() string {
	var text strings.Builder
	text.WriteString("| way | of a workload with | how | end |\n|---|---|---|---|\n")
	for _, w := range ways {
		var kinds []string
		for _, k := range w.kinds {
			kinds = append(kinds, string(k))
		}
		end := string(w.end)
		if w.condition != "" {
			end = fmt.Sprintf("**%s**: %s", end, w.condition)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", w.name, strings.Join(kinds, ", "), w.how, end)
	}
	return text.String()
}

// docs/security.md has the table of ways out; -update writes it.
func TestWaysInDocs(t *testing.T) {
	const page, begin, end = "../../../docs/security.md", "<!-- ways -->\n", "<!-- end of ways -->\n"
	text, err := os.ReadFile(page)
	if os.IsNotExist(err) {
		t.Skip("the source is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, foot, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s does not have %q and %q", page, begin, end)
	}
	goldentest.Check(t, page, head+begin+waysTable()+end+foot)
}
