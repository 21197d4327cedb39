// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/refusal"
	"weir/internal/host/dataplane"
	"weir/internal/host/discover"
)

// tenants is a world with two groups. web and cam have mins of 20 and 15 Mbit/s in tenant, which
// has a max of 40; big has a min of 50; lab was made by weir attach.
func tenants(t *testing.T) Decision {
	t.Helper()
	lab := config.Attachment{Name: "lab", Netns: "lab"}
	made := WorkloadOf(lab)
	made.Devices = []discover.Device{{Name: "veth-lab", Ifindex: 77}}
	w := knowing(t, "groups: {office: {weight: 2}}\nattach: [{name: vm, device: tap0}]",
		container("web", "weir.min=20mbit"), container("cam", "weir.min=15mbit"), container("big", "weir.min=50mbit"), made, WorkloadOf(config.Attachment{Name: "vm", Device: "tap0"}))
	w.Attached = []config.Attachment{lab}
	w.Groups["tenant"] = policy.MustChange("max", "40mbit")
	w.Set["docker:web"], w.Set["docker:cam"] = policy.MustChange("group", "tenant"), policy.MustChange("group", "tenant")
	return Decide(w)
}

// ask is a request as a user makes it.
type ask func(Decision) (ChangeRequest, error)

func set(name string, pairs ...string) ask {
	return func(d Decision) (ChangeRequest, error) { return d.Set(name, apitest.Change(pairs...)) }
}

func setGroup(name string, pairs ...string) ask {
	return func(d Decision) (ChangeRequest, error) {
		return d.SetGroup(name, api.GroupChange{PolicyChange: apitest.Change(pairs...)})
	}
}

func deleteGroup(name string) ask {
	return func(d Decision) (ChangeRequest, error) { return d.DeleteGroup(name) }
}

// attach asks for an attachment of which the source finds a device with an index.
func attach(at config.Attachment, device string, ifindex int, pairs ...string) ask {
	return func(d Decision) (ChangeRequest, error) {
		if err := d.CheckAttachment(at); err != nil {
			return ChangeRequest{}, err
		}
		return d.Attach(at, apitest.Change(pairs...), []discover.Device{{Name: device, Ifindex: ifindex}}, nil)
	}
}

func detach(name string) ask {
	return func(d Decision) (ChangeRequest, error) { r, _, err := d.Detach(name); return r, err }
}

// What cannot be granted is refused with its kind, the numbers and what to do.
func TestRefusedRequests(t *testing.T) {
	d := tenants(t)
	for _, test := range []struct {
		name  string
		ask   ask
		kind  refusal.Kind
		words string // with " | " between
	}{
		{"unknown workload", set("wep", "weight", "3"), refusal.Unknown, "did you mean web?"},
		{"nothing", set("web"), refusal.Invalid, "nothing to change | weight"},
		{"a number too large", set("web", "weight", "100000"), refusal.Invalid, "weight"},
		{"no room on the link", set("big", "min", "90mbit"), refusal.NoRoom, "asked 90 Mbit/s | reserved 35 Mbit/s of 100 Mbit/s | free 65 Mbit/s"},
		{"no room in the group", set("web", "min", "30mbit"), refusal.NoRoom, "group tenant has no room | ask for 25mbit or less"},
		{"no room in a group to join", set("big", "group", "tenant"), refusal.NoRoom, "asked 50 Mbit/s | free 5 Mbit/s"},
		{"no such group", set("big", "group", "tennant"), refusal.Invalid, "no such group | weir group set tennant"},
		{"min above max", set("web", "max", "10mbit"), refusal.Invalid, "max"},
		{"ingress that no link steers", set("web", "ingress.max", "10mbit"), refusal.Invalid, "no link's ingress is steered"},
		{"a queue that is not there", func(d Decision) (ChangeRequest, error) {
			c := apitest.Change("reserve", "1mbit")
			c.ReserveQueue = "voice"
			return d.Set("web", c)
		}, refusal.Invalid, "no such queue | --queue"},
		{"group: nothing", setGroup("tenant"), refusal.Invalid, "nothing to change"},
		{"group: no name", setGroup("none"), refusal.Invalid, "stands for no group"},
		{"group: min below its members'", setGroup("tenant", "min", "30mbit"), refusal.Conflict, "add up to 35 Mbit/s | write 35mbit or more"},
		{"group: max below its members'", setGroup("tenant", "max", "30mbit"), refusal.Conflict, "add up to 35 Mbit/s"},
		{"group: no room", setGroup("tenant", "min", "60mbit", "max", "80mbit"), refusal.NoRoom, "asked 60 Mbit/s | free 50 Mbit/s"},
		{"group: unknown", deleteGroup("tennant"), refusal.Unknown, "did you mean tenant?"},
		{"group: configured", deleteGroup("office"), refusal.Conflict, "take it out of groups: in weir.yaml"},
		{"group: not empty", deleteGroup("tenant"), refusal.Conflict, "still in it: cam, web | weir set cam --group none"},
		{"attach: a link", attach(config.Attachment{Name: "x", Device: "eth0"}, "eth0", 1), refusal.Invalid, "is a link that Weir steers"},
		{"attach: the name is taken", attach(config.Attachment{Name: "web", Netns: "x"}, "v", 99), refusal.Conflict, "is taken by docker:web"},
		{"attach: the device is taken", attach(config.Attachment{Name: "x", Device: "vethweb"}, "vethweb", indexOf("web")), refusal.Conflict, "vethweb | web (docker:web) | weir set web"},
		{"attach: what weir attach has", attach(config.Attachment{Name: "x", Netns: "y"}, "veth-lab", 77), refusal.Conflict, "its veth-lab | lab (netns:lab) | weir detach lab"},
		{"attach: no room", attach(config.Attachment{Name: "x", Netns: "y"}, "v", 99, "min", "90mbit"), refusal.NoRoom, "free 15 Mbit/s"},
		{"detach: a container", detach("web"), refusal.Conflict, "was not attached by weir attach | when it is stopped"},
		{"detach: the host", detach("host"), refusal.Conflict, "the host is always there"},
		{"detach: configured", detach("vm"), refusal.Conflict, "take it out of attach: in weir.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := test.ask(d)
			if err == nil {
				_, err = d.Try(r)
			}
			refused, ok := errors.AsType[*refusal.Error](err)
			if !ok || refused.Kind != test.kind {
				t.Fatalf("got %v, want kind %s", err, test.kind)
			}
			for words := range strings.SplitSeq(test.words, " | ") {
				if said := refused.Value + " " + refused.Error(); !strings.Contains(said, words) {
					t.Errorf("%q does not say %q", said, words)
				}
			}
		})
	}
}

// A granted request is planned, and the answer names its parts that have no effect.
func TestGrantedRequests(t *testing.T) {
	htb := dataplane.Abilities{NoGroups: true, OneQueue: true, Discipline: discipline.SFQ, NoByteLimit: true}
	for _, test := range []struct {
		name             string
		ask              ask
		abilities        dataplane.Abilities
		subject, planned string
		stored, notHeld  map[string]string
	}{
		{"a min for which there is room", set("big", "min", "60mbit"), dataplane.Abilities{}, "big", "weight 1 min 60 Mbit/s", nil, nil},
		{"what is so already", set("web", "weight", "1"), dataplane.Abilities{}, "web", "weight 1 min 20 Mbit/s in tenant", map[string]string{"weight": "1"}, nil},
		{"a group", setGroup("new", "weight", "4"), dataplane.Abilities{}, "new", "weight 4", nil, nil},
		{"a group's max", setGroup("tenant", "max", "35mbit"), dataplane.Abilities{}, "tenant", "weight 1 min 35 Mbit/s max 35 Mbit/s", nil, nil},
		{"an attachment", attach(config.Attachment{Name: "x", Netns: "y"}, "v", 99, "min", "15mbit"), dataplane.Abilities{}, "x", "weight 1 min 15 Mbit/s", nil, nil},
		{"the end of one", detach("lab"), dataplane.Abilities{}, "lab", "nothing", nil, nil},
		{"what a backend lacks and is accepted", func(d Decision) (ChangeRequest, error) {
			return d.Set("big", apitest.Accepting(apitest.Change("limit_bytes", "30000"), true))
		}, htb, "big", "weight 1 min 50 Mbit/s limit 0/30000", nil, map[string]string{"limit_bytes": "30000"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := tenants(t).World
			if test.abilities != (dataplane.Abilities{}) {
				w.Abilities = map[string]dataplane.Abilities{"eth0": test.abilities}
			}
			d := Decide(w)
			r, err := test.ask(d)
			if err != nil {
				t.Fatal(err)
			}
			next, err := d.Try(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := next.Decision.planned(test.subject); got != test.planned {
				t.Errorf("planned %s, want %s", got, test.planned)
			}
			if !maps.Equal(next.Stored, test.stored) || !maps.Equal(next.NotHeld, test.notHeld) {
				t.Errorf("stored %v, not held %v", next.Stored, next.NotHeld)
			}
			if again := Decide(d.World); len(plan.Diff(d.Plans["eth0"], again.Plans["eth0"])) > 0 {
				t.Error("the request changed the decision before it")
			}
		})
	}
}

// The goodput of a queue is refused where it cannot be measured, and what is accepted all the same
// is not planned: a controller without a measurement would give the queue the whole link.
func TestQueueGoodputNeedsMark(t *testing.T) {
	for _, test := range []struct {
		name      string
		cgroup    bool
		abilities dataplane.Abilities
		refused   bool
	}{
		{"known by its cgroup", true, dataplane.Abilities{NoQueueGoodput: true}, true},
		{"known by its cgroup, with a mark", true, dataplane.Abilities{}, false},
		{"known by its device", false, dataplane.Abilities{NoQueueGoodput: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := tenants(t).World
			if test.cgroup {
				job := WorkloadOf(config.Attachment{Name: "big", Cgroup: "/sys/fs/cgroup/job"})
				job.Cgroups = []string{"/sys/fs/cgroup/job"}
				w.Found = append(slices.DeleteFunc(slices.Clone(w.Found), func(v discover.Workload) bool { return v.Name == "big" }), job)
			}
			w.Abilities = map[string]dataplane.Abilities{"eth0": test.abilities}
			d := Decide(w)
			for _, accept := range []bool{false, true} {
				change := apitest.Change("discipline", "pq", "queues", "{voice: {reserve: 1mbit, match: [{udp: 5001}]}, rest: {}}")
				r, err := d.Set("big", apitest.Accepting(change, accept))
				if err != nil {
					t.Fatal(err)
				}
				next, err := d.Try(r)
				if refused, ok := errors.AsType[*refusal.Error](err); test.refused && !accept {
					if !ok || refused.Kind != refusal.NotHeld || !strings.Contains(refused.Error(), "mark_mask") {
						t.Errorf("got %v, want a refusal that names mark_mask", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, class := range next.Decision.Plans["eth0"].Classes {
					if len(class.Queues) < 2 {
						continue
					}
					if held := class.Queues[0].Reserve != 0; held == test.refused {
						t.Errorf("accepted %v: queue %+v", accept, class.Queues[0])
					}
				}
			}
		})
	}
}
