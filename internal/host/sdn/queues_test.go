// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rates sends 8 Mbit/s of UDP from each of the hosts 1 to n at once and returns what each
// has sent by up0 within a window, in Mbit/s of frames, as the hosts 5 to 4+n received it. flows
// has the queue of each host, -1 for none.
func (b *bed) rates(queues ...int) []float64 {
	b.t.Helper()
	var flows strings.Builder
	for i, queue := range queues {
		action := "output:9"
		if queue >= 0 {
			action = fmt.Sprintf("set_queue:%d,output:9", queue)
		}
		fmt.Fprintf(&flows, "ovs-ofctl -O OpenFlow13 add-flow s1 priority=40,in_port=%d,actions=%s\n", i+1, action)
	}
	b.sh(flows.String())
	clients := ""
	for i := range queues {
		b.sh(fmt.Sprintf(`ip netns exec h%d iperf3 -s -1 -D --logfile $D/server%d >/dev/null`, 5+i, i))
		clients += fmt.Sprintf("ip netns exec h%d iperf3 -u -c 10.0.0.%d -b 8M -l 1470 -t 14 >$D/client%d 2>&1 & ", 1+i, 5+i, i)
	}
	received := func() (bytes []float64) {
		for i := range queues {
			n, err := strconv.ParseFloat(strings.TrimSpace(b.sh(fmt.Sprintf("ip netns exec h%d cat /sys/class/net/eth0/statistics/rx_bytes", 5+i))), 64)
			if err != nil {
				b.t.Fatal(err)
			}
			bytes = append(bytes, n)
		}
		return bytes
	}
	var wait sync.WaitGroup
	wait.Go(func() { b.sh(clients + "wait") })
	time.Sleep(3 * time.Second) // connections are made, queues full
	before, began := received(), time.Now()
	time.Sleep(window)
	got, over := received(), time.Since(began).Seconds()
	wait.Wait()
	for i := range got {
		got[i] = (got[i] - before[i]) * 8 / over / 1e6
	}
	return got
}

const window = 8 * time.Second

// TestQueuesAsHTBHasThem: rows that another tool wrote mean what they mean to Open vSwitch's HTB:
// a min-rate is had, a max-rate never exceeded, and what is in no queue, or in one without a row,
// is in queue 0.
func TestQueuesAsHTBHasThem(t *testing.T) {
	b := newBed(t)
	if !strings.Contains(b.sh(`tc qdisc add dev up1 root htb && tc qdisc del dev up1 root; echo there`), "there") {
		t.Skip("SKIP: the kernel has no HTB to compare with")
	}
	ask := b.startAgent()
	const none = -1
	for _, tt := range []struct {
		discipline string
		rows       map[int]string // by number
		queues     []int          // of each host's packets
		want       []float64      // Mbit/s; 0 = not bounded by the rows
		sum        float64
	}{
		{"cbwfq", map[int]string{0: "min-rate=2000000 other_config:max-rate=2000000", 123: "min-rate=4000000"}, []int{123, none, 777}, []float64{6, 0, 0}, 8},
		{"cbwfq", map[int]string{1: "min-rate=4000000", 61439: "min-rate=900000 other_config:max-rate=1000000"}, []int{1, 61439}, []float64{7, 1}, 8},
		{"pq", map[int]string{234: "priority=1 other_config:max-rate=3000000", 1023: "priority=2"}, []int{234, 1023}, []float64{3, 5}, 8},
		{"llq", map[int]string{0: "priority=3 other_config:min-rate=1000000", 1: "priority=1 other_config:min-rate=3000000 other_config:max-rate=3000000", 2: "priority=2 other_config:min-rate=1000000"}, []int{1, 2, none}, []float64{3, 2.5, 2.5}, 8},
	} {
		t.Run(fmt.Sprintf("%s %v", tt.discipline, tt.queues), func(t *testing.T) {
			row := func(kind string) {
				create, numbers := "", ""
				for n, config := range tt.rows {
					create += fmt.Sprintf(" -- --id=@q%d create queue other_config:%s", n, config)
					numbers += fmt.Sprintf(" queues:%d=@q%d", n, n)
				}
				b.sh(`ovs-vsctl clear port up0 qos -- --all destroy qos -- --all destroy queue`)
				b.sh(fmt.Sprintf(`ovs-vsctl set port up0 qos=@q -- --id=@q create qos type=%s other_config:max-rate=8000000 %s%s`, kind, numbers, create))
			}
			row("linux-noop other_config:weir-discipline=" + tt.discipline)
			for wait := 0; !b.steered(); wait++ {
				if wait == 300 {
					t.Fatalf("the port is no link:\n%s\n%s", ask("status"), b.sh(`ovs-vsctl list qos; ovs-vsctl list queue`))
				}
				time.Sleep(100 * time.Millisecond)
			}
			got := b.rates(tt.queues...)
			row("linux-htb")
			time.Sleep(time.Second)
			htb := b.rates(tt.queues...)
			t.Logf("Weir %.3f, HTB %.3f Mbit/s", got, htb)
			sum := 0.0
			for i, rate := range got {
				sum += rate
				if want := tt.want[i]; want != 0 && math.Abs(rate-want) > 0.01*want {
					t.Errorf("queue %d: %.3f Mbit/s, want %.3f; HTB %.3f", tt.queues[i], rate, want, htb[i])
				}
			}
			if math.Abs(sum-tt.sum) > 0.01*tt.sum {
				t.Errorf("the port carries %.3f Mbit/s, want %.3f", sum, tt.sum)
			}
		})
	}
}
