// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"weir/internal/lab/scenario"
)

// interval of iperf3's reports. Phases that begin and end on whole half seconds
// are cut exactly.
const interval = "0.5"

// packages say where a missing program comes from.
var packages = map[scenario.Kind]struct{ program, server, pkg string }{
	scenario.TCP:    {"iperf3", "iperf3", "iperf3"},
	scenario.UDP:    {"iperf3", "iperf3", "iperf3"},
	scenario.Ping:   {"ping", "", "iputils-ping"},
	scenario.TCPRR:  {"netperf", "netserver", "netperf"},
	scenario.UDPRR:  {"netperf", "netserver", "netperf"},
	scenario.TCPCRR: {"netperf", "netserver", "netperf"},
}

// Require says which program is missing for a scenario's traffic, nil if none.
func Require(flows []scenario.Flow) error {
	for _, f := range flows {
		p := packages[f.Kind]
		for _, program := range []string{p.program, p.server} {
			if program == "" {
				continue
			}
			if _, err := exec.LookPath(program); err != nil {
				return fmt.Errorf("traffic %s needs the program %s, which is not installed; install the package %s or run in the VM (vm/run)",
					f.Kind, program, p.pkg)
			}
		}
	}
	return nil
}

const ect0 = 2 // in the type of service: ECN-capable (RFC 3168)

// client is the command that sends a flow.
func client(f scenario.Flow) *exec.Cmd {
	source, receiver := f.Ends()
	from, to := source.String(), receiver.String()
	seconds := strconv.Itoa(int(math.Ceil((f.To - f.From).Seconds())) + spare)
	tos := strconv.Itoa(int(f.DSCP) << 2)
	var args []string
	switch f.Kind {
	case scenario.TCP, scenario.UDP:
		args = []string{"-c", to, "-B", from, "-p", strconv.Itoa(f.Listen), "-t", seconds, "-i", interval, "-J", "-P", strconv.Itoa(f.Streams)}
		if f.Kind == scenario.UDP {
			args = append(args, "-u", "-b", strconv.FormatFloat(f.PayloadRate(), 'f', 0, 64))
		}
		if f.Size != 0 {
			args = append(args, "-l", strconv.Itoa(f.Size))
		}
		if f.DSCP != 0 {
			args = append(args, "-S", tos)
		}
		return exec.Command("iperf3", args...)
	case scenario.Ping:
		args = []string{"-n", "-D", "-i", strconv.FormatFloat(f.Interval.Seconds(), 'f', 6, 64), "-s", strconv.Itoa(f.Size)}
		if f.ECN {
			tos = strconv.Itoa(int(f.DSCP)<<2 | ect0)
		}
		if tos != "0" {
			args = append(args, "-Q", tos)
		}
		if f.Ingress { // its end has an address for each workload
			args = append(args, "-I", from)
		}
		return exec.Command("ping", append(args, to)...)
	default: // netperf
		whole := strconv.Itoa(max(1, int((f.To-f.From)/time.Second)))
		size := strconv.Itoa(f.Size)
		args = []string{"-4", "-H", to, "-p", strconv.Itoa(scenario.NetserverPort), "-t", strings.ToUpper(string(f.Kind)), "-l", whole, "-P", "0"}
		if f.Ingress {
			args = append(args, "-L", from)
		}
		if f.DSCP != 0 {
			args = append(args, "-Y", fmt.Sprintf("%#x,%#x", f.DSCP<<2, f.DSCP<<2))
		}
		args = append(args, "--", "-r", size+","+strconv.Itoa(cmp.Or(f.Answer, f.Size)))
		if f.Port != 0 {
			args = append(args, "-P", ","+strconv.Itoa(f.Port))
		}
		return exec.Command("netperf", append(args, "-o", netperfSelectors)...)
	}
}

// server is the command that receives on a port, nil if the kernel answers.
func server(k scenario.Kind, address string, port int) *exec.Cmd {
	at := address
	switch k {
	case scenario.TCP, scenario.UDP:
		return exec.Command("iperf3", "-s", "-B", at, "-p", strconv.Itoa(port), "-i", interval, "-J")
	case scenario.TCPRR, scenario.UDPRR, scenario.TCPCRR:
		return exec.Command("netserver", "-D", "-4", "-L", at, "-p", strconv.Itoa(port))
	}
	return nil
}

// spare is how much longer than its flow an iperf3 would run by itself, in seconds. It is
// told to stop when the flow ends: left alone it ends as many seconds after its test began
// as it was told, and the test begins when client and server have agreed.
const spare = 2

// interrupts says that the generator has to be told to stop when its time is over.
func interrupts(f scenario.Flow) bool { return !f.Kind.RR() }
