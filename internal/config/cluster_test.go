// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/tlsfile"
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
  automatic: {enabled: true, interval: 30s, hysteresis: 10%, cooldown: 1h, moves_at_once: 3, moves_per_hour: 12, quiet_hours: ["22:00-06:00"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Cluster{Manager: "10.0.0.1:7470", TokenFile: "/etc/weir/token", Name: "a", Listen: ":7473", Advertise: "10.0.0.2:7473", RegistryListen: "127.0.0.1:7474",
		Kafka: Kafka{TLS: true, Files: tlsfile.Files{Cert: "/a.pem", Key: "/a.key", ServerName: "k"}, Mechanism: "SCRAM-SHA-512", User: "a", PasswordFile: "/p"}}); c.Cluster != want {
		t.Errorf("%+v", c.Cluster)
	}
	want := DefaultManager()
	want.Bus, want.Registry = "kafka://k1:9092,k2:9092", "10.0.0.9:5000"
	want.Images = Images{PerNode: 500e6, Total: 1.5e12, KeepFree: 2e9}
	want.Kafka = Kafka{TLS: true, Files: tlsfile.Files{CA: "/ca.pem"}}
	want.Automatic = Automatic{Enabled: true, Interval: 30 * time.Second, Hysteresis: 0.1, Cooldown: time.Hour, AtOnce: 3, PerHour: 12, QuietHours: []string{"22:00-06:00"}}
	if !reflect.DeepEqual(c.Manager, want) {
		t.Errorf("%+v", c.Manager)
	}
}

func TestClusterMistakes(t *testing.T) {
	_, err := Parse("weir.yaml", []byte(`cluster:
  manager: somewhere
  name: Node_1
  token: secret
  registry_listen: ":7474"
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
		`weir.yaml:7:13: manager.registry: "somewhere" is no registry; write embedded, none, or its host:port`,
		`weir.yaml:9:15: manager.automatic.interval: "often" is no duration`,
		`weir.yaml:10:20: manager.automatic.moves_at_once: "0" is no number of at least 1`,
		`weir.yaml:12:22: manager.images.per_node: "much" is no size; give one such as 500MB or 20GB`,
		`weir.yaml:12:35: manager.images.total: "5GiB" is no size`,
		`weir.yaml:12:52: manager.images.keep_free: "-1GB" is no size`,
		`weir.yaml:11:17: manager.automatic.hysteresis: "20" is no share`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
