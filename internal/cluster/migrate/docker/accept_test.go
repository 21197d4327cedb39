// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"github.com/docker/docker/api/types/blkiodev"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/go-connections/nat"

	"weir/internal/cluster/migrate"
	"weir/internal/test/dockertest"
)

var seed = flag.Uint64("seed", 1, "which hostile configurations are drawn")

// right is something in a container's configuration that gives it more of its host than
// any container has.
type right struct {
	name string
	give func(*container.InspectResponse, *migrate.Container)
	rule *accept.Rules // by which an operator allows it; nil = none does
	old  bool          // it is the default of hosts with cgroups of version 1
}

func hostConfig(give func(h *container.HostConfig)) func(*container.InspectResponse, *migrate.Container) {
	return func(r *container.InspectResponse, _ *migrate.Container) { give(r.HostConfig) }
}

func endpoint(give func(n *network.EndpointSettings)) func(*container.InspectResponse, *migrate.Container) {
	return func(r *container.InspectResponse, _ *migrate.Container) {
		for _, n := range r.NetworkSettings.Networks {
			give(n)
		}
	}
}

// rights returns the ways that are known. Those that no rule allows come first.
func rights() []right {
	yes := true
	one := func(name string, give func(h *container.HostConfig)) right {
		return right{name: name, give: hostConfig(give)}
	}
	logging := func(name, driver, option, value string) right {
		return one(name, func(h *container.HostConfig) {
			h.LogConfig = container.LogConfig{Type: driver, Config: map[string]string{option: value}}
		})
	}
	list := []right{
		one("privileged", func(h *container.HostConfig) { h.Privileged = true }),
		one("all capabilities", func(h *container.HostConfig) { h.CapAdd = []string{"ALL"} }),
		one("device", func(h *container.HostConfig) {
			h.Devices = []container.DeviceMapping{{PathOnHost: "/dev/mem", PathInContainer: "/dev/null", CgroupPermissions: "rwm"}}
		}),
		one("device rule", func(h *container.HostConfig) { h.DeviceCgroupRules = []string{"a *:* rwm"} }),
		one("device request", func(h *container.HostConfig) {
			h.DeviceRequests = []container.DeviceRequest{{Driver: "nvidia", Count: -1}}
		}),
		one("processes of the host", func(h *container.HostConfig) { h.PidMode = "host" }),
		one("processes of a container", func(h *container.HostConfig) { h.PidMode = "container:db" }),
		one("IPC of the host", func(h *container.HostConfig) { h.IpcMode = "host" }),
		one("IPC of a container", func(h *container.HostConfig) { h.IpcMode = "container:db" }),
		one("UTS of the host", func(h *container.HostConfig) { h.UTSMode = "host" }),
		one("users of the host", func(h *container.HostConfig) { h.UsernsMode = "host" }),
		{name: "cgroups of the host", give: hostConfig(func(h *container.HostConfig) { h.CgroupnsMode = "host" }), old: true},
		one("cgroup of a container", func(h *container.HostConfig) { h.Cgroup = "container:db" }),
		one("cgroup parent", func(h *container.HostConfig) { h.CgroupParent = "/" }),
		one("network of a container", func(h *container.HostConfig) { h.NetworkMode = "container:db" }),
		one("network that is not described", func(h *container.HostConfig) { h.NetworkMode = "secret" }),
		one("bind with propagation", func(h *container.HostConfig) { h.Binds = []string{"/srv/shared:/x:rshared"} }),
		one("mount with propagation", func(h *container.HostConfig) {
			h.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: "/srv/shared", Target: "/x", BindOptions: &mount.BindOptions{Propagation: "rshared"}}}
		}),
		one("bind with ..", func(h *container.HostConfig) { h.Binds = []string{"/srv/shared/../../etc:/x"} }),
		one("bind over /proc", func(h *container.HostConfig) { h.Binds = []string{"/srv/shared:/proc/sys"} }),
		one("volume that is not described", func(h *container.HostConfig) { h.Binds = []string{"secrets:/x"} }),
		one("volume with a path for a name", func(h *container.HostConfig) { h.Binds = []string{"../../etc:/x"} }),
		{name: "volume of another driver", give: func(r *container.InspectResponse, c *migrate.Container) {
			r.HostConfig.Binds = append(r.HostConfig.Binds, "nfs:/x")
			c.Volumes = append(c.Volumes, migrate.Volume{Name: "nfs", Driver: "nfs"})
		}},
		{name: "volume with options: a bind in disguise", give: func(r *container.InspectResponse, c *migrate.Container) {
			r.HostConfig.Mounts = append(r.HostConfig.Mounts, mount.Mount{Type: mount.TypeVolume, Source: "disguise", Target: "/x", VolumeOptions: &mount.VolumeOptions{
				DriverConfig: &mount.Driver{Name: "local", Options: map[string]string{"type": "none", "o": "bind", "device": "/"}}}})
			c.Volumes = append(c.Volumes, migrate.Volume{Name: "disguise", Driver: "local"})
		}},
		{name: "hidden volume of the image's", give: func(r *container.InspectResponse, _ *migrate.Container) {
			r.Mounts = append(r.Mounts, container.MountPoint{Type: mount.TypeVolume, Name: "secrets", Destination: "/x", RW: true})
		}},
		one("volume driver", func(h *container.HostConfig) { h.VolumeDriver = "nfs" }),
		one("volumes of a container", func(h *container.HostConfig) { h.VolumesFrom = []string{"db"} }),
		one("mount of a pipe", func(h *container.HostConfig) {
			h.Mounts = []mount.Mount{{Type: mount.TypeNamedPipe, Source: "/run/docker.sock", Target: "/x"}}
		}),
		one("mount of an image", func(h *container.HostConfig) {
			h.Mounts = []mount.Mount{{Type: mount.TypeImage, Source: "secret:1", Target: "/x"}}
		}),
		one("tmpfs with devices", func(h *container.HostConfig) { h.Tmpfs = map[string]string{"/x": "dev,suid,size=1m"} }),
		one("tmpfs over /dev", func(h *container.HostConfig) { h.Tmpfs = map[string]string{"/dev": "size=1m"} }),
		one("tmpfs mount with options", func(h *container.HostConfig) {
			h.Mounts = []mount.Mount{{Type: mount.TypeTmpfs, Target: "/x", TmpfsOptions: &mount.TmpfsOptions{Options: [][]string{{"suid"}}}}}
		}),
		one("links", func(h *container.HostConfig) { h.Links = []string{"db:db"} }),
		one("seccomp off", func(h *container.HostConfig) { h.SecurityOpt = []string{"seccomp=unconfined"} }),
		one("AppArmor off", func(h *container.HostConfig) { h.SecurityOpt = []string{"apparmor=unconfined"} }),
		one("labels off", func(h *container.HostConfig) { h.SecurityOpt = []string{"no-new-privileges", "label=disable"} }),
		one("nothing masked", func(h *container.HostConfig) { h.MaskedPaths = []string{} }),
		one("half masked", func(h *container.HostConfig) { h.MaskedPaths = slices.Clone(coreMasked)[2:] }),
		one("nothing read-only", func(h *container.HostConfig) { h.ReadonlyPaths = []string{} }),
		one("masked elsewhere", func(h *container.HostConfig) {
			h.MaskedPaths = append(slices.Clone(coreMasked), "/etc/passwd")
		}),
		one("runtime", func(h *container.HostConfig) { h.Runtime = "own" }),
		one("storage option", func(h *container.HostConfig) { h.StorageOpt = map[string]string{"size": "1t"} }),
		one("annotation", func(h *container.HostConfig) { h.Annotations = map[string]string{"run.oci.keep_original_groups": "1"} }),
		one("isolation", func(h *container.HostConfig) { h.Isolation = "process" }),
		one("no OOM", func(h *container.HostConfig) { h.OomKillDisable = &yes }),
		one("OOM score", func(h *container.HostConfig) { h.OomScoreAdj = -1000 }),
		one("real time", func(h *container.HostConfig) { h.CPURealtimeRuntime = 950000 }),
		one("block device", func(h *container.HostConfig) {
			h.BlkioDeviceReadBps = []*blkiodev.ThrottleDevice{{Path: "/dev/sda", Rate: 1}}
		}),
		one("init", func(h *container.HostConfig) { h.Init = &yes }),
		one("auto-remove", func(h *container.HostConfig) { h.AutoRemove = true }),
		one("shared memory", func(h *container.HostConfig) { h.Memory, h.ShmSize = 0, 1<<40 }),
		one("restart policy of tomorrow", func(h *container.HostConfig) { h.RestartPolicy.Name = "as-root" }),
		{name: "link of a network", give: endpoint(func(n *network.EndpointSettings) { n.Links = []string{"db:db"} })},
		{name: "sysctl by a network", give: endpoint(func(n *network.EndpointSettings) {
			n.DriverOpts = map[string]string{"com.docker.network.endpoint.sysctls": "net.ipv4.conf.IFNAME.forwarding=1"}
		})},
		{name: "address of the link", give: endpoint(func(n *network.EndpointSettings) {
			n.IPAMConfig = &network.EndpointIPAMConfig{LinkLocalIPs: []string{"169.254.169.254"}}
		})},
		{name: "address that is none", give: endpoint(func(n *network.EndpointSettings) {
			n.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: "somewhere"}
		})},
		{name: "anonymous volume over /proc", give: func(r *container.InspectResponse, _ *migrate.Container) {
			r.Config.Volumes = map[string]struct{}{"/proc/sys": {}}
		}},
		{name: "anonymous volume that nothing describes", give: func(r *container.InspectResponse, _ *migrate.Container) {
			r.Config.Volumes = map[string]struct{}{"/elsewhere": {}}
		}},
		{name: "path that is not mounted", give: func(_ *container.InspectResponse, c *migrate.Container) {
			c.Binds = []migrate.BindMount{{Source: "/root/.ssh", Destination: "/x", Dir: true}}
		}},
		{name: "port that is not published", give: func(_ *container.InspectResponse, c *migrate.Container) {
			c.Ports = []string{":22/tcp"}
		}},
		logging("log buffer of 100 GB", "local", "max-buffer-size", "100g"),
		logging("log files without number", "json-file", "max-file", "1000000000"),
		logging("log mode of tomorrow", "json-file", "mode", "as-root"),
		logging("log tag that is computed", "json-file", "tag", `{{pad "" 1000000000 0}}`),
		logging("log size that is none", "json-file", "max-size", "{{.}}"),
		{name: "another image", give: func(r *container.InspectResponse, _ *migrate.Container) {
			r.Image = "sha256:" + strings.Repeat("e", 64)
		}},
		{name: "another name", give: func(r *container.InspectResponse, _ *migrate.Container) { r.Name = "/db" }},
		{name: "the host's name", give: func(r *container.InspectResponse, c *migrate.Container) { r.Name, c.Name = "/host", "host" }},
		{name: "a swarm's", give: func(r *container.InspectResponse, _ *migrate.Container) {
			r.Config.Labels = map[string]string{"com.docker.swarm.service.name": "web"}
		}},
	}
	allowed := func(name string, rule accept.Rules, give func(h *container.HostConfig)) {
		list = append(list, right{name: name, give: hostConfig(give), rule: &rule})
	}
	allowed("capability", accept.Rules{Capabilities: []string{"SYS_ADMIN"}}, func(h *container.HostConfig) { h.CapAdd = []string{"CAP_SYS_ADMIN"} })
	allowed("capability, small", accept.Rules{Capabilities: []string{"CAP_NET_ADMIN"}}, func(h *container.HostConfig) { h.CapAdd = []string{"net_admin"} })
	allowed("bind of the root", accept.Rules{Binds: []string{"/"}}, func(h *container.HostConfig) { h.Binds = []string{"/:/host"} })
	allowed("bind of the engine's socket", accept.Rules{Binds: []string{"/run"}}, func(h *container.HostConfig) { h.Binds = []string{"/run/docker.sock:/x:ro"} })
	allowed("mount of a path", accept.Rules{Binds: []string{"/etc/"}}, func(h *container.HostConfig) {
		h.Mounts = []mount.Mount{{Type: mount.TypeBind, Source: "/etc/shadow", Target: "/x"}}
	})
	allowed("sysctl", accept.Rules{Sysctls: []string{"net.core.somaxconn"}}, func(h *container.HostConfig) { h.Sysctls = map[string]string{"net.core.somaxconn": "1"} })
	allowed("ulimit", accept.Rules{Ulimits: []string{"rtprio"}}, func(h *container.HostConfig) { h.Ulimits = []*container.Ulimit{{Name: "rtprio", Hard: 99, Soft: 99}} })
	allowed("group", accept.Rules{Groups: []string{"999"}}, func(h *container.HostConfig) { h.GroupAdd = []string{"999"} })
	allowed("log driver", accept.Rules{LogDrivers: []string{"syslog"}}, func(h *container.HostConfig) {
		h.LogConfig = container.LogConfig{Type: "syslog", Config: map[string]string{"syslog-address": "unixgram:///run/secret"}}
	})
	allowed("name in the journal", accept.Rules{LogDrivers: []string{"journald"}}, func(h *container.HostConfig) {
		h.LogConfig = container.LogConfig{Type: "journald", Config: map[string]string{"tag": "sshd"}}
	})
	allowed("port", accept.Rules{Ports: []accept.PortRange{{From: 22, To: 22}}}, func(h *container.HostConfig) {
		h.PortBindings = nat.PortMap{"80/tcp": {{HostPort: "22"}}}
	})
	list = append(list, right{"network of the host", func(r *container.InspectResponse, c *migrate.Container) {
		r.HostConfig.NetworkMode = "host"
		r.NetworkSettings.Networks = map[string]*network.EndpointSettings{"host": {}}
		c.Networks = []migrate.Network{{Name: "host", Driver: "host"}}
	}, &accept.Rules{HostNetwork: true}, false}, right{"network of others", func(r *container.InspectResponse, c *migrate.Container) {
		r.HostConfig.NetworkMode = "tenant"
		r.NetworkSettings.Networks = map[string]*network.EndpointSettings{"tenant": {}}
		c.Networks = []migrate.Network{{Name: "tenant", Driver: "bridge"}}
	}, &accept.Rules{Networks: []string{"tenant"}}, false})
	return list
}

var target = host{runtime: "runc", cgroups: "2"}

// honest returns a container with as many options as do no harm.
func honest() (container.InspectResponse, migrate.Container) {
	of, id := "sha256:"+strings.Repeat("1", 64), strings.Repeat("a", 64)
	pids, swappiness, no := int64(100), int64(60), false
	r := container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: id, Name: "/web", Image: of, HostConfig: &container.HostConfig{
			Binds: []string{"things:/things:rw"}, NetworkMode: "default", IpcMode: "private", CgroupnsMode: "private", Runtime: "runc",
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyOnFailure, MaximumRetryCount: 3}, LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{
				"max-size": "1m", "max-file": "3", "compress": "true", "mode": "non-blocking", "max-buffer-size": "4m", "tag": "app/{{.Name}}", "labels": "a,b", "env": "A"}},
			CapAdd: []string{"CAP_NET_RAW"}, CapDrop: []string{"MKNOD"}, SecurityOpt: []string{"no-new-privileges"}, ExtraHosts: []string{"db:10.0.0.9"}, DNS: []string{"10.0.0.53"},
			Tmpfs: map[string]string{"/scratch": "rw,noexec,size=64m"}, ShmSize: 64 << 20, ReadonlyRootfs: true, OomScoreAdj: 100, PortBindings: nat.PortMap{"80/tcp": {{HostPort: "8080"}, {}}},
			MaskedPaths: append(slices.Clone(coreMasked), "/proc/asound"), ReadonlyPaths: coreReadonly, Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: "more", Target: "/more", VolumeOptions: &mount.VolumeOptions{}}},
			Resources: container.Resources{Memory: 1 << 28, NanoCPUs: 5e8, PidsLimit: &pids, MemorySwappiness: &swappiness, OomKillDisable: &no, Devices: []container.DeviceMapping{},
				Ulimits: []*container.Ulimit{{Name: "nofile", Soft: 1024, Hard: 4096}}},
		}},
		Config: &container.Config{Image: "app:1", Cmd: []string{"serve"}, Env: []string{"A=1"}, Labels: map[string]string{"weir.weight": "3"}, User: "root", Hostname: "web",
			Volumes: map[string]struct{}{"/anonymous/": {}, "/scratch": {}, "/more": {}}},
		Mounts: []container.MountPoint{{Type: mount.TypeVolume, Name: "things", Destination: "/things"}, {Type: mount.TypeVolume, Name: "more", Destination: "/more"},
			{Type: mount.TypeVolume, Name: strings.Repeat("f", 64), Destination: "/anonymous"}},
		NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{"bridge": {MacAddress: "02:42:ac:11:00:02", IPAddress: "172.17.0.2"}}},
	}
	c := migrate.Container{ID: id, Name: "web", Engine: "docker", Image: "app:1", ImageID: of, Networks: []migrate.Network{{Name: "bridge", Driver: "bridge"}},
		Volumes: []migrate.Volume{{Name: "things", Driver: "local"}, {Name: "more", Driver: "local"}, {Name: strings.Repeat("f", 64), Driver: "local"}}}
	return r, c
}

// orderFor describes a container as a source does.
func orderFor(t *testing.T, r container.InspectResponse, c migrate.Container) migrate.MoveSpec {
	t.Helper()
	text, err := json.Marshal(config{Inspect: r})
	if err != nil {
		t.Fatal(err)
	}
	if c.Binds == nil {
		for _, source := range boundPaths(r) {
			c.Binds = append(c.Binds, migrate.BindMount{Source: source})
		}
	}
	if c.Ports == nil {
		c.Ports = portsOf(r)
	}
	c.Config = text
	return migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: c}
}

func TestHonestConfigurationIsAccepted(t *testing.T) {
	r, c := honest()
	if list := examine(orderFor(t, r, c), accept.Rules{}, target); len(list) > 0 {
		t.Errorf("refused: %v", list)
	}
	r.HostConfig.CgroupnsMode = "host" // what engines do by default with the older cgroups
	if list := examine(orderFor(t, r, c), accept.Rules{}, host{"runc", "1"}); len(list) > 0 {
		t.Errorf("refused with cgroups of version 1: %v", list)
	}
}

// TestEachRightNeedsItsRule: none passes by default; with its rule, each that has one
// does; and no rule lets another right pass.
func TestEachRightNeedsItsRule(t *testing.T) {
	for _, one := range rights() {
		t.Run(one.name, func(t *testing.T) {
			r, c := honest()
			one.give(&r, &c)
			list := examine(orderFor(t, r, c), accept.Rules{}, target)
			if len(list) == 0 {
				t.Fatal("accepted")
			}
			for _, f := range list {
				if !f.Refuses || f.Remedy == "" || strings.Contains(f.Msg, "\n") {
					t.Errorf("%+v", f)
				}
			}
			if one.rule != nil {
				if list := examine(orderFor(t, r, c), *one.rule, target); len(list) > 0 {
					t.Errorf("refused with its rule %+v: %v", *one.rule, list)
				}
			}
			for _, other := range rights() {
				if other.rule == nil || one.rule != nil && slices.Equal(other.rule.Binds, []string{"/"}) && len(one.rule.Binds) > 0 || other.name == one.name {
					continue
				}
				if list := examine(orderFor(t, r, c), *other.rule, target); len(list) == 0 {
					t.Errorf("accepted with the rule for %s", other.name)
				}
			}
		})
	}
}

// TestWeirsOwnPorts: no container gets one of the agent's or the manager's by default, nor
// by a range, since it may be started before them.
func TestWeirsOwnPorts(t *testing.T) {
	for _, c := range []struct {
		rules    accept.Rules
		accepted bool
	}{
		{accept.Rules{}, true},
		{accept.Rules{Reserved: []int{7474, 7473}}, false},
		{accept.Rules{Reserved: []int{7473}, Ports: []accept.PortRange{{From: 1, To: 65535}}}, false},
		{accept.Rules{Reserved: []int{7473}, Ports: []accept.PortRange{{From: 7473, To: 7473}}}, true},
	} {
		r, about := honest()
		r.HostConfig.PortBindings = nat.PortMap{"80/tcp": {{HostPort: "7473"}}}
		if list := examine(orderFor(t, r, about), c.rules, target); (len(list) == 0) != c.accepted {
			t.Errorf("%+v: %v", c.rules, list)
		}
	}
}

// TestUnknownFieldsAreRefused: what this build cannot judge may be a right in a later one.
func TestUnknownFieldsAreRefused(t *testing.T) {
	r, c := honest()
	o := orderFor(t, r, c)
	for _, path := range []string{`"HostConfig":{`, `,"Config":{"Hostname"`, `"inspect":{`, `"NetworkSettings":{`} {
		bad := o
		bad.Container.Config = []byte(strings.Replace(string(o.Container.Config), path, strings.Replace(path, "{", `{"Tomorrow":true,`, 1), 1))
		if string(bad.Container.Config) == string(o.Container.Config) {
			t.Fatalf("no %s in %s", path, o.Container.Config)
		}
		if list := examine(bad, accept.Rules{}, target); len(list) == 0 || !strings.Contains(list[0].Msg, "Tomorrow") {
			t.Errorf("a field of tomorrow in %s: %v", path, list)
		}
	}
	for _, text := range []string{"", "null", "{}", `{"inspect":null}`, "[]", `{"inspect":{"HostConfig":{}}}`} {
		bad := o
		bad.Container.Config = []byte(text)
		if len(examine(bad, accept.Rules{}, target)) == 0 {
			t.Errorf("accepted: %q", text)
		}
	}
}

// drawn are configurations with one to four rights each, taken at random.
func drawn(n int, random *rand.Rand, at host, base func() (container.InspectResponse, migrate.Container), each func(i int, names []string, r container.InspectResponse, c migrate.Container)) {
	all := slices.DeleteFunc(rights(), func(r right) bool { return r.old && at.cgroups == "1" })
	for i := range n {
		r, c := base()
		var names []string
		for range 1 + random.IntN(4) {
			one := all[random.IntN(len(all))]
			one.give(&r, &c)
			names = append(names, one.name)
		}
		each(i, names, r, c)
	}
}

// TestHostileConfigurations: of 200 configurations that a hostile source draws from
// everything that gives rights, the target creates none, whatever it says. The engine is
// a real one, and is as it was at the end.
func TestHostileConfigurations(t *testing.T) {
	random := rand.New(rand.NewPCG(*seed, 0))
	t.Logf("seed %d", *seed)
	drawn(200, random, target, honest, func(i int, names []string, r container.InspectResponse, c migrate.Container) {
		if len(examine(orderFor(t, r, c), accept.Rules{}, target)) == 0 {
			t.Errorf("configuration %d is accepted: %v", i, names)
		}
	})

	engine := dockertest.ForTest(t)
	ctx := t.Context()
	e, err := Open(engine.Client().DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Guard(accept.Rules{})
	id, err := engine.Create(ctx, dockertest.Container{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Client().VolumeCreate(ctx, volume.CreateOptions{Name: "secrets"}); err != nil {
		t.Fatal(err)
	}
	web, err := e.Describe(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Remove(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	base := func() (container.InspectResponse, migrate.Container) {
		c, err := decode(web.Config)
		if err != nil {
			t.Fatal(err)
		}
		return c.Inspect, web
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before := stateOf(t, e)
	count := 0
	drawn(200, random, host{info.DefaultRuntime, info.CgroupVersion}, base, func(i int, names []string, r container.InspectResponse, c migrate.Container) {
		o := orderFor(t, r, c)
		o.Move = fmt.Sprintf("m-%d", i)
		if _, err := e.Do(ctx, move.Create, o); err == nil || !strings.Contains(err.Error(), "accept") && !strings.Contains(err.Error(), "configuration") {
			t.Errorf("configuration %d (%v): %v", i, names, err)
		}
		list, err := e.Lacking(ctx, o)
		if err != nil || !slices.ContainsFunc(list, func(f migrate.PreflightFinding) bool { return f.Refuses }) {
			t.Errorf("configuration %d (%v) is not found in the pre-flight: %v, %v", i, names, list, err)
		}
		count++
	})
	if after := stateOf(t, e); after != before {
		t.Errorf("the engine had\n%s\nand has\n%s", before, after)
	}
	t.Logf("%d configurations, none was created", count)

	// And the honest one is.
	r, c := base()
	o := orderFor(t, r, c)
	if _, err := e.Do(ctx, move.Create, o); err != nil {
		t.Errorf("an honest container: %v", err)
	}
	if _, err := e.Do(ctx, move.Discard, o); err != nil {
		t.Error(err)
	}
	if after := stateOf(t, e); after != before {
		t.Errorf("after a discard the engine has\n%s\nbefore it had\n%s", after, before)
	}
}

// stateOf is what an engine has, as text.
func stateOf(t *testing.T, e *Engine) string {
	t.Helper()
	var lines []string
	containers, err := e.client.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		lines = append(lines, "container "+c.ID+" "+strings.Join(c.Names, " ")+" "+c.State)
	}
	volumes, err := e.client.VolumeList(t.Context(), volume.ListOptions{Filters: filters.Args{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		lines = append(lines, fmt.Sprint("volume ", v.Name, " ", slices.Sorted(maps.Keys(v.Labels))))
	}
	images, err := e.client.ImageList(t.Context(), image.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		lines = append(lines, fmt.Sprint("image ", i.ID, " ", i.RepoTags))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestVolumesBringNoLabels: of a volume's labels come those that a container may bring, and the one
// by which Docker knows a volume without a name.
func TestVolumesBringNoLabels(t *testing.T) {
	v := migrate.Volume{Labels: map[string]string{"backup.schedule": "@daily", "keep": "yes", anonymousVolume: ""}}
	e := &Engine{}
	if got := e.volumeLabels(v); !maps.Equal(got, v.Labels) {
		t.Errorf("orders of root on this machine: %v", got)
	}
	e.Guard(accept.Rules{Labels: []string{"keep"}})
	if got := e.volumeLabels(v); !maps.Equal(got, map[string]string{"keep": "yes", anonymousVolume: ""}) {
		t.Errorf("orders of another node: %v", got)
	}
	if got := e.volumeLabels(migrate.Volume{}); got == nil || len(got) != 0 {
		t.Errorf("without labels: %v", got)
	}
}
