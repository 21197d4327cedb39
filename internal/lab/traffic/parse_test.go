// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/lab/scenario"
)

func TestParsePing(t *testing.T) {
	const out = `PING 10.77.2.1 (10.77.2.1) 56(84) bytes of data.
[1000.500000] 64 bytes from 10.77.2.1: icmp_seq=1 ttl=64 time=0.048 ms
[1000.521300] 64 bytes from 10.77.2.1: icmp_seq=2 ttl=64 time=12.5 ms
[1000.521400] 64 bytes from 10.77.2.1: icmp_seq=2 ttl=64 time=12.6 ms (DUP!)
[1000.560000] From 10.77.1.1 icmp_seq=3 Destination Host Unreachable

--- 10.77.2.1 ping statistics ---
3 packets transmitted, 2 received, 33% packet loss, time 40ms
`
	got := parsePing(out, time.Unix(1000, 0))
	want := []Ping{
		{At: 500 * time.Millisecond, Seq: 1, RTT: 48 * time.Microsecond},
		{At: 521300 * time.Microsecond, Seq: 2, RTT: 12500 * time.Microsecond},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseNetperf(t *testing.T) {
	tests := []struct {
		name, out string
		want      *RR
	}{
		{"figures", "45,120,50.5,900,8123.5\n", &RR{P50: 45 * time.Microsecond, P99: 120 * time.Microsecond, Mean: 50500, Most: 900 * time.Microsecond, Rate: 8123.5}},
		{"a warning before them", "netperf: no good clock\n45,120,50,120,10\n", &RR{P50: 45 * time.Microsecond, P99: 120 * time.Microsecond, Mean: 50 * time.Microsecond, Most: 120 * time.Microsecond, Rate: 10}},
		{"nothing", "", nil},
		{"no connection", "establish control: are you sure there is a netserver listening\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseNetperf(tt.out)
			if (err != nil) != (tt.want == nil) || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestParseIperfReadsEveryDocumentOfAServer(t *testing.T) {
	const first = `{"intervals":[{"sum":{"start":0,"end":0.5,"bytes":1000,"jitter_ms":0.2,"lost_packets":-1,"packets":7}}]}`
	const second = `{"intervals":[{"sum":{"start":0,"end":0.5,"bytes":3000,"lost_packets":2,"packets":9}}], "error": "late"}`
	server, err := parseIperf([]byte(first + "\n" + second + "\n"))
	if err != nil || len(server) != 2 {
		t.Fatalf("got %+v, %v", server, err)
	}
	client, err := parseIperf([]byte(`{"intervals":[{"sum":{"retransmits":4}},{"sum":{"retransmits":5}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := merge(2*time.Second, client[0], server[0])
	want := []IperfInterval{{
		From: 2 * time.Second, To: 2500 * time.Millisecond,
		Retransmits: 4, Packets: 7, Jitter: 200 * time.Microsecond,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := merge(0, client[0], server[1])[0]; got.Lost != 2 || got.Packets != 9 {
		t.Errorf("second test: %+v", got)
	}
	if _, err := parseIperf([]byte("iperf3: error")); err == nil {
		t.Error("text that is no JSON is accepted")
	}
}

func TestClientCommands(t *testing.T) {
	flow := func(k scenario.Kind, length time.Duration) scenario.Flow {
		return scenario.Flow{From: time.Second, To: time.Second + length, Listen: 99, Traffic: scenario.Traffic{
			Kind: k, Streams: 2, Size: 1200, Rate: 12420000, Interval: 21300 * time.Microsecond,
		}}
	}
	tests := []struct {
		name string
		flow scenario.Flow
		want string
	}{
		{"tcp is stopped before it ends by itself", flow(scenario.TCP, 2500*time.Millisecond),
			"iperf3 -c 10.77.2.1 -B 10.77.1.1 -p 99 -t 5 -i 0.5 -J -P 2 -l 1200"},
		{"udp: 12.42 Mbit/s of wire are 6 Mbit/s of payload in each of two sockets", flow(scenario.UDP, time.Second),
			"iperf3 -c 10.77.2.1 -B 10.77.1.1 -p 99 -t 3 -i 0.5 -J -P 2 -u -b 6000000 -l 1200"},
		{"ping", flow(scenario.Ping, time.Second), "ping -n -D -i 0.021300 -s 1200 10.77.2.1"},
		{"a ping that can be marked", scenario.Flow{ECN: true, Traffic: scenario.Traffic{Kind: scenario.Ping, Size: 56, DSCP: 46, Interval: time.Second}},
			"ping -n -D -i 1.000000 -s 56 -Q 186 10.77.2.1"},
		{"netperf", flow(scenario.TCPRR, 4*time.Second),
			"netperf -4 -H 10.77.2.1 -p 12865 -t TCP_RR -l 4 -P 0 -- -r 1200,1200 -o P50_LATENCY,P99_LATENCY,MEAN_LATENCY,MAX_LATENCY,TRANSACTION_RATE"},
		{"netperf in a queue", scenario.Flow{To: time.Second, Traffic: scenario.Traffic{Kind: scenario.UDPRR, Size: 1, Port: 5060, DSCP: 46}},
			"netperf -4 -H 10.77.2.1 -p 12865 -t UDP_RR -l 1 -P 0 -Y 0xb8,0xb8 -- -r 1,1 -P ,5060 -o P50_LATENCY,P99_LATENCY,MEAN_LATENCY,MAX_LATENCY,TRANSACTION_RATE"},
		{"a connection for each request", scenario.Flow{To: 2 * time.Second, Traffic: scenario.Traffic{Kind: scenario.TCPCRR, Size: 200, Answer: 2000, Port: 7001}},
			"netperf -4 -H 10.77.2.1 -p 12865 -t TCP_CRR -l 2 -P 0 -- -r 200,2000 -P ,7001 -o P50_LATENCY,P99_LATENCY,MEAN_LATENCY,MAX_LATENCY,TRANSACTION_RATE"},
		{"marked", scenario.Flow{To: time.Second, Listen: 80, Traffic: scenario.Traffic{Kind: scenario.TCP, Streams: 1, DSCP: 34}},
			"iperf3 -c 10.77.2.1 -B 10.77.1.1 -p 80 -t 3 -i 0.5 -J -P 1 -S 136"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(client(tt.flow).Args, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestRequireNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Require([]scenario.Flow{{Traffic: scenario.Traffic{Kind: scenario.TCPRR}}})
	if err == nil || !strings.Contains(err.Error(), "install the package netperf") {
		t.Errorf("got %v", err)
	}
	if err := Require(nil); err != nil {
		t.Errorf("no traffic needs nothing, got %v", err)
	}
}

func TestProcessIsForcedToEnd(t *testing.T) {
	p := begun(t, "sleep", "60")
	if forced := p.wait(after(time.Millisecond)); !forced {
		t.Error("a program that does not end was not forced to")
	}
	if forced := p.wait(after(0)); forced {
		t.Error("a program that has ended was forced")
	}
}

func begun(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p, err := begin(exec.Command(program, args...), (*exec.Cmd).Start)
	if err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() { p.wait(after(0)) })
	return p
}

// A server is still printing when its client has gone.
func TestServerMayFinishItsDocuments(t *testing.T) {
	const printer = `echo '{"error": "a"}'; printf '{"error": '; sleep 0.2; echo '"b"}'; exec sleep 60`
	p := begun(t, "sh", "-c", printer)
	p.awaitDocuments(2, after(30*time.Second))
	if docs, err := parseIperf(p.out.Bytes()); err != nil || len(docs) != 2 {
		t.Errorf("waited for two documents, got %+v, %v", docs, err)
	}
	p.awaitDocuments(3, after(20*time.Millisecond)) // one that never comes
}

func FuzzParsePing(f *testing.F) {
	f.Add("[1.000000] 64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.1 ms\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, p := range parsePing(out, time.Unix(0, 0)) {
			if p.RTT < 0 {
				t.Errorf("a negative round trip from %q", out)
			}
		}
	})
}

func FuzzParseIperf(f *testing.F) {
	f.Add([]byte(`{"intervals":[{"sum":{"start":0,"end":0.5,"bytes":1}}]}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		docs, _ := parseIperf(out)
		for _, d := range docs {
			for _, in := range merge(0, d, d) {
				if in.To < in.From {
					t.Errorf("interval %+v from %q", in, out)
				}
			}
		}
	})
}
