// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var resources = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")

// A claim is a min from Prepare to Unprepare, each of which may come twice.
func TestClaimIsMin(t *testing.T) {
	b := newBed(t, oneLink)
	b.publishes("at the start", "eth0 100M")
	web := b.claim("web", "60M", "web")
	b.must(b.prepare(web))
	b.holds("prepared", "shop/web 60 Mbit/s")
	b.says("web", "True", "60 Mbit/s of eth0 held")
	b.must(b.prepare(web))
	b.holds("prepared again", "shop/web 60 Mbit/s")
	b.publishes("a claim takes nothing off its own capacity", "eth0 100M")
	late := b.claim("late", "41M", "late")
	if err := b.prepare(late); err == nil || !strings.Contains(err.Error(), "link eth0 has no room for it: asked 41 Mbit/s, reserved 60 Mbit/s of 100 Mbit/s, free 40 Mbit/s; ask for 40mbit or less") {
		t.Errorf("no room: %v", err)
	}
	b.must(b.unprepare(late))
	b.must(b.unprepare(web))
	b.holds("given back", "")
	b.must(b.unprepare(web))
	b.must(b.prepare(late))
	b.holds("room made", "shop/late 41 Mbit/s")
}

// A claim that asks for nothing is prepared without a min, and says so.
func TestClaimOfNothing(t *testing.T) {
	b := newBed(t, oneLink)
	none := b.claim("none", "0", "none")
	b.must(b.prepare(none))
	b.says("none", "True", "no min; request link asks for no bandwidth; write capacity: {requests: {bandwidth: 10M}}")
	b.holds("nothing", "")
	b.must(b.unprepare(none))
}

// What a claim cannot have is refused with its field and value, and nothing of it is held.
func TestWrongClaims(t *testing.T) {
	b := newBed(t, oneLink)
	for name, tt := range map[string]struct{ amount, device, text string }{
		"negative": {"-5M", "eth0", "consumedCapacity.bandwidth: is no rate"},
		"large":    {"200M", "eth0", "asked 200 Mbit/s, reserved 0 bit/s of 100 Mbit/s, free 100 Mbit/s; ask for 100mbit or less"},
		"unknown":  {"5M", "eth7", "no link of this node is called \"eth7\"; the node has eth0"},
	} {
		c := b.claim(name, tt.amount, name)
		c.Status.Allocation.Devices.Results[0].Device = tt.device
		b.must(b.client.Tracker().Update(resources, c, "shop"))
		if err := b.prepare(c); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
		b.must(b.unprepare(c))
	}
	b.holds("nothing", "")
}

// Two claims of a pod add up.
func TestTwoClaims(t *testing.T) {
	b := newBed(t, oneLink)
	one, two := b.claim("one", "10M", "web"), b.claim("two", "20M", "web")
	b.must(b.prepare(one))
	b.must(b.prepare(two))
	b.holds("both", "shop/web 30 Mbit/s")
	b.must(b.unprepare(one))
	b.holds("one", "shop/web 20 Mbit/s")
}

// Pods that share a claim have its min together; kubelet says nothing of the second one.
func TestSharedClaim(t *testing.T) {
	b := newBed(t, oneLink)
	shared := b.claim("uplink", "60M", "a")
	b.must(b.prepare(shared))
	b.holds("the first pod", "shop/a 60 Mbit/s")
	b.reserve("uplink", "a", "b")
	b.holds("a second pod", "claim.shop.uplink 60 Mbit/s")
	b.says("uplink", "True", "60 Mbit/s of eth0 held")
	b.stopDriver()
	b.reserve("uplink", "b")
	b.startDriver()
	b.holds("changed while no driver ran", "shop/b 60 Mbit/s")
	b.reserve("uplink", "a", "b")
	b.holds("the watch goes on", "claim.shop.uplink 60 Mbit/s")
	b.must(b.unprepare(shared))
	b.holds("given back", "")
	b.reserve("uplink", "a")
	time.Sleep(100 * time.Millisecond)
	b.holds("a claim that is not prepared", "")
}

// Slices follow the agent: mins of others, the capacity, whether it steers the link and answers.
func TestSlicesFollowAgent(t *testing.T) {
	b := newBed(t, "links: [{device: eth0, egress: 100mbit, reservable: 90%}]\nworkloads: {host: {min: 5mbit}}")
	b.publishes("reservable, and the host's min", "eth0 85M")
	web := b.claim("web", "60M", "web")
	b.must(b.prepare(web))
	b.kernel.RemoveDevice("eth0")
	b.publishes("the device has gone", "eth0 85M weir.dev/link")
	b.says("web", "False", "link eth0 is not steered")
	b.kernel.AddDevice("eth0")
	b.publishes("and is back", "eth0 85M")
	b.says("web", "True", "held")
	b.stopAgent()
	b.publishes("the agent has gone", "eth0 85M weir.dev/agent")
	b.says("web", "Unknown", "the agent does not answer; what was held before, the kernel holds on")
	if err := b.prepare(web); err == nil || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("prepared without an agent: %v", err)
	}
	if err := b.unprepare(web); err == nil || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("unprepared without an agent: %v", err)
	}
	b.config = "links: [{device: eth0, egress: 50mbit}]\nworkloads: {host: {min: 5mbit}}"
	b.startAgent()
	b.publishes("back with less", "eth0 45M")
	b.says("web", "False", "link eth0 has no room for it: asked 60 Mbit/s")
}

// A driver that starts anew knows by the agent's state what is prepared.
func TestRestarts(t *testing.T) {
	b := newBed(t, oneLink)
	web, gone := b.claim("web", "60M", "web"), b.claim("gone", "30M", "gone")
	b.must(b.prepare(web))
	b.must(b.prepare(gone))
	b.says("gone", "True", "held")
	b.stopDriver()
	b.remove("gone")
	b.startDriver()
	b.holds("the claim that went meanwhile is given back", "shop/web 60 Mbit/s")
	b.must(b.prepare(web))
	b.stopAgent()
	b.startAgent()
	b.holds("the agent anew", "shop/web 60 Mbit/s")
	b.stopAgent()
	b.must(os.Remove(filepath.Join(b.dir, "state.json")))
	b.startAgent()
	b.holds("the agent without its state", "shop/web 60 Mbit/s")
	b.stopDriver()
	b.stopAgent()
	b.startAgent()
	b.startDriver()
	b.must(b.unprepare(web))
	b.holds("unprepared by another driver", "")
}

// A claim whose node's kubelet has lost its state is given back when another needs the room.
func TestSweep(t *testing.T) {
	b := newBed(t, oneLink)
	lost, next := b.claim("lost", "60M", "lost"), b.claim("next", "60M", "next")
	b.must(b.prepare(lost))
	b.says("lost", "True", "held")
	b.remove("lost")
	b.must(b.prepare(next))
	b.holds("swept", "shop/next 60 Mbit/s")
}

// When nothing changes, nothing is asked of the API server; a change is one request for the
// slices and one for each claim.
func TestNoRequestsWhenNothingChanges(t *testing.T) {
	b := newBed(t, oneLink)
	b.publishes("at the start", "eth0 100M")
	for _, name := range []string{"a", "b", "c"} {
		b.must(b.prepare(b.claim(name, "10M", name)))
		b.says(name, "True", "held")
	}
	quiet := func(what string) {
		t.Helper()
		b.client.ClearActions()
		time.Sleep(500 * time.Millisecond)
		if n := b.requests(); n != 0 {
			t.Errorf("%s: %d requests in 25 polls: %v", what, n, b.client.Actions())
		}
	}
	quiet("prepared")
	b.stopAgent()
	b.publishes("gone", "eth0 100M weir.dev/agent")
	for _, name := range []string{"a", "b", "c"} {
		b.says(name, "Unknown", "")
	}
	quiet("the agent is gone")
	b.startAgent()
	b.publishes("back", "eth0 100M")
	b.says("c", "True", "")
	b.says("a", "True", "")
	b.says("b", "True", "")
	quiet("back")
}

// TestRegistered: the driver says that kubelet has taken it, not before and not when it was
// refused.
func TestRegistered(t *testing.T) {
	b := newBed(t, oneLink)
	conn, err := grpc.NewClient("unix://"+filepath.Join(b.dir, "plugins_registry", "weir.dev-reg.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kubelet := registration.NewRegistrationClient(conn)
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such version"}, grpc.WaitForReady(true)); err == nil {
		t.Error("the library takes a refusal for nothing")
	}
	time.Sleep(5 * 20 * time.Millisecond) // the driver looks each 20 ms
	if b.taken.Load() {
		t.Error("kubelet has refused the driver, which says that it was taken")
	}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	b.until("kubelet has taken the driver", b.taken.Load)
}
