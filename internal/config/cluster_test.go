// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"weir/internal/core/accept"

	"weir/internal/base/tlsfile"
)

func TestCluster(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
cluster: {manager: "10.0.0.1:7470", token_file: /etc/weir/token, name: a, advertise: "10.0.0.2:7473",
  kafka: {tls: {ca: system, cert: /a.pem, key: /a.key, server_name: k}, sasl: {mechanism: SCRAM-SHA-512, user: a, password_file: /p}}}
manager:
  kafka: {tls: {ca: /ca.pem}}
  bus: kafka://k1:9092,k2:9092
  registry: "10.0.0.9:5000"
  images: {per_node: 500MB, total: 1.5 TB, keep_free: 2gb}
  automatic: {enabled: true, interval: 30s, hysteresis: 10%, above: 0%, cooldown: 1h, moves_at_once: 3, moves_per_hour: 12, quiet_hours: ["22:00-06:00"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Cluster{Manager: "10.0.0.1:7470", TokenFile: "/etc/weir/token", Name: "a", Listen: ":7473", Advertise: "10.0.0.2:7473", RegistryListen: "127.0.0.1:7474",
		Kafka: Kafka{TLS: true, Files: tlsfile.Files{Cert: "/a.pem", Key: "/a.key", ServerName: "k"}, Mechanism: "SCRAM-SHA-512", User: "a", PasswordFile: "/p"}}); !reflect.DeepEqual(c.Cluster, want) {
		t.Errorf("%+v", c.Cluster)
	}
	want := DefaultManager()
	want.Bus, want.Registry = "kafka://k1:9092,k2:9092", "10.0.0.9:5000"
	want.Images = Images{PerNode: 500e6, Total: 1.5e12, KeepFree: 2e9}
	want.Kafka = Kafka{TLS: true, Files: tlsfile.Files{CA: "/ca.pem"}}
	want.Automatic = Automatic{Enabled: true, Interval: 30 * time.Second, Hysteresis: 0.1, Above: new(0.0), Cooldown: time.Hour, AtOnce: 3, PerHour: 12, QuietHours: []string{"22:00-06:00"}}
	if !reflect.DeepEqual(c.Manager, want) {
		t.Errorf("%+v", c.Manager)
	}
}

// TestAccept: what other nodes may send here. No list is not the same as an empty one.
func TestAccept(t *testing.T) {
	for text, want := range map[string]Cluster{
		`{}`:                                {},
		`{accept_from: []}`:                 {AcceptFrom: []string{}},
		`{accept_from: [a, b], accept: {}}`: {AcceptFrom: []string{"a", "b"}},
		`{accept: {policy: []}}`:            {Accept: accept.Rules{Policy: []string{}}},
		`{accept: {policy: [weight, max]}}`: {Accept: accept.Rules{Policy: []string{"weight", "max"}}},
		`{accept: {ports: []}}`:             {Accept: accept.Rules{Ports: []accept.PortRange{}}},
		`{accept: {ports: ["80", 443, 1024-2048], host_network: true}}`: {Accept: accept.Rules{HostNetwork: true, Ports: []accept.PortRange{{From: 80, To: 80}, {From: 443, To: 443}, {From: 1024, To: 2048}}}},
		`{accept: {capabilities: [NET_ADMIN], binds: [/srv], networks: [inner], sysctls: [net.core.somaxconn], ulimits: [memlock], log_drivers: [syslog], groups: ["999"]}}`: {
			Accept: accept.Rules{Capabilities: []string{"NET_ADMIN"}, Binds: []string{"/srv"}, Networks: []string{"inner"}, Sysctls: []string{"net.core.somaxconn"},
				Ulimits: []string{"memlock"}, LogDrivers: []string{"syslog"}, Groups: []string{"999"}}},
	} {
		c, err := Parse("weir.yaml", []byte("cluster: "+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(c.Cluster.AcceptFrom, want.AcceptFrom) || !reflect.DeepEqual(c.Cluster.Accept, want.Accept) {
			t.Errorf("%s: %+v, %+v", text, c.Cluster.AcceptFrom, c.Cluster.Accept)
		}
	}
}

func TestClusterMistakes(t *testing.T) {
	_, err := Parse("weir.yaml", []byte(`cluster:
  manager: somewhere
  name: Node_1
  token: secret
  registry_listen: ":7474"
  accept_from: [Node_1]
  accept:
    binds: [srv]
    ports: [http]
    privileged: true
manager:
  registry: somewhere
  automatic:
    interval: often
    moves_at_once: 0
    hysteresis: 20
  images: {per_node: much, total: 5GiB, keep_free: -1GB}
`))
	for _, want := range []string{
		`weir.yaml:2:12: cluster.manager: "somewhere" is no address`,
		`weir.yaml:3:9: cluster.name: "Node_1" cannot be a node's name`,
		`weir.yaml:4:3: cluster.token: unknown key "token"; did you mean "token_file"?`,
		`weir.yaml:5:20: cluster.registry_listen: ":7474" is not on the loopback`,
		`weir.yaml:6:16: cluster.accept_from: "Node_1" cannot be a node's name`,
		`weir.yaml:8:12: cluster.accept.binds: "srv" is no path of the host`,
		`weir.yaml:9:12: cluster.accept.ports: "http" is no range of ports`,
		`weir.yaml:10:5: cluster.accept.privileged: unknown key "privileged"`,
		`weir.yaml:12:13: manager.registry: "somewhere" is no registry; write embedded, none, or its host:port`,
		`weir.yaml:14:15: manager.automatic.interval: "often" is no duration`,
		`weir.yaml:15:20: manager.automatic.moves_at_once: "0" is no number of at least 1`,
		`weir.yaml:16:17: manager.automatic.hysteresis: "20" is no share`,
		`weir.yaml:17:22: manager.images.per_node: "much" is no size; give one such as 500MB or 20GB`,
		`weir.yaml:17:35: manager.images.total: "5GiB" is no size`,
		`weir.yaml:17:52: manager.images.keep_free: "-1GB" is no size`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestAcceptReservesOwnPorts: those where the agent and the manager listen.
func TestAcceptReservesOwnPorts(t *testing.T) {
	for text, want := range map[string][]int{
		"{}": {7473, 7474, 7470, 7471},
		`{cluster: {listen: "10.0.0.1:8000", registry_listen: "127.0.0.1:8001"}, metrics: {listen: "127.0.0.1:9469"}, web: {listen: "127.0.0.1:7480"}, manager: {listen: ":8002", bus_listen: ":8003"}}`: {8000, 8001, 9469, 7480, 8002, 8003},
	} {
		c, err := Parse("weir.yaml", []byte(text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Accept().Reserved; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
