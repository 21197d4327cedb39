// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"weir/internal/core/accept"

	"weir/internal/core/wire"
)

// Cluster holds the settings of the cluster that the agent is a member of.
type Cluster struct {
	Manager   string // host:port, "" = none
	TokenFile string // holds the token by which it joins for the first time
	Name      string // of the node, "" = the host's name
	Listen    string // host:port for other nodes' migrations
	Advertise string // host:port at which others reach that, "" = found out
	Kafka     Kafka  // how this node connects to the brokers, if they are the bus
	// RegistryListen is the loopback address where the engine finds the manager's image
	// registry.
	RegistryListen string
	AcceptFrom     []string     // nodes from which containers are taken, nil = all members
	Accept         accept.Rules // what they may have of this host
}

// Migration is the workload of migrations: the traffic that an agent sends to other nodes
// and to the registry to move containers. It is there on nodes of a cluster.
const Migration = "migration"

// Registries that are no host:port.
const (
	OwnRegistry = "embedded"
	NoRegistry  = "none"
)

// Manager holds the settings of weir manager serve.
type Manager struct {
	Listen    string // host:port where nodes join
	BusListen string // host:port of the embedded bus
	Bus       string // "nats", or kafka://HOST:PORT,...
	Registry  string // host:port of an image registry, OwnRegistry or NoRegistry
	Socket    string // where its API listens
	StateDir  string
	Images    Images
	Automatic Automatic
	Kafka     Kafka
	Web       Web
}

// Automatic holds the settings of moves that the manager makes without a request. Zero
// values mean its own defaults.
type Automatic struct {
	Enabled    bool
	Interval   time.Duration
	Hysteresis float64  // 0 < Hysteresis <= 1
	Above      *float64 // 0 to 1, nil = the default
	Cooldown   time.Duration
	AtOnce     int
	PerHour    int
	QuietHours []string // such as 22:00-06:00
}

// DefaultCluster and DefaultManager hold the settings of an empty file.
func DefaultCluster() Cluster { return Cluster{Listen: ":7473", RegistryListen: "127.0.0.1:7474"} }

// DefaultManager returns the manager of an empty file.
func DefaultManager() Manager {
	return Manager{Listen: ":7470", BusListen: ":7471", Bus: "nats", Registry: OwnRegistry, Socket: "/run/weir-manager/manager.sock", StateDir: "/var/lib/weir/manager"}
}

func (c *Config) readCluster(fields node) {
	fields.fields([]string{"manager", "token_file", "name", "listen", "advertise", "registry_listen", "kafka", "accept_from", "accept"}, func(key string, value node) {
		switch key {
		case "manager":
			readHostPort(value, &c.Cluster.Manager)
		case "token_file":
			readPath(value, &c.Cluster.TokenFile)
		case "name":
			if text, ok := value.text(); ok {
				if err := wire.CheckNode(text); err != nil {
					value.wrong("%v", err)
				}
				c.Cluster.Name = text
			}
		case "listen":
			readHostPort(value, &c.Cluster.Listen)
		case "advertise":
			readHostPort(value, &c.Cluster.Advertise)
		case "registry_listen":
			readLoopback(value, &c.Cluster.RegistryListen)
		case "kafka":
			c.Cluster.Kafka.read(value)
		case "accept_from":
			c.Cluster.AcceptFrom = readMembers(value)
		case "accept":
			readAccept(value, &c.Cluster.Accept)
		}
	})
}

func (c *Config) readManager(fields node) {
	m := &c.Manager
	fields.fields([]string{"listen", "bus_listen", "bus", "registry", "socket", "state_dir", "images", "automatic", "kafka", "web"}, func(key string, value node) {
		switch key {
		case "listen":
			readHostPort(value, &m.Listen)
		case "bus_listen":
			readHostPort(value, &m.BusListen)
		case "bus":
			readText(value, &m.Bus)
		case "registry":
			readRegistry(value, &m.Registry)
		case "socket":
			readPath(value, &m.Socket)
		case "state_dir":
			readPath(value, &m.StateDir)
		case "images":
			m.Images.read(value)
		case "automatic":
			m.Automatic.read(value)
		case "kafka":
			m.Kafka.read(value)
		case "web":
			m.Web.read(value, "manager.web", "127.0.0.1:7481")
		}
	})
}

func (a *Automatic) read(fields node) {
	fields.fields([]string{"enabled", "interval", "hysteresis", "above", "cooldown", "moves_at_once", "moves_per_hour", "quiet_hours"}, func(key string, value node) {
		switch key {
		case "enabled":
			readBool(value, &a.Enabled)
		case "interval":
			readDuration(value, &a.Interval)
		case "hysteresis":
			readShare(value, &a.Hysteresis)
		case "above":
			above := -1.0
			if readPart(value, &above); above >= 0 {
				a.Above = &above
			}
		case "cooldown":
			readDuration(value, &a.Cooldown)
		case "moves_at_once":
			readCount(value, &a.AtOnce)
		case "moves_per_hour":
			readCount(value, &a.PerHour)
		case "quiet_hours":
			value.items(func(item node) {
				if text, ok := item.text(); ok {
					a.QuietHours = append(a.QuietHours, text)
				}
			})
		}
	})
}

func readHostPort(value node, into *string) {
	text, ok := value.text()
	if !ok {
		return
	}
	if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
		value.wrong("%q is no address; give host:port, e.g. 10.0.0.1:7470", text)
		return
	}
	*into = text
}

// readLoopback reads an address that must not leave the machine.
func readLoopback(value node, into *string) {
	text := *into
	readHostPort(value, &text)
	host, _, _ := net.SplitHostPort(text)
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		value.wrong("%q is not on the loopback, where engines talk to a registry without TLS; give such as 127.0.0.1:7474", text)
		return
	}
	*into = text
}

// CheckRegistry reports the mistake in the text of a manager's registry.
func CheckRegistry(text string) error {
	if text == OwnRegistry || text == NoRegistry {
		return nil
	}
	address, _, _ := strings.Cut(text, "/")
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return fmt.Errorf("%q is no registry; write embedded, none, or its host:port", text)
	}
	return nil
}

func readRegistry(value node, into *string) {
	if text, ok := value.text(); ok {
		value.refuse(CheckRegistry(text))
		*into = text
	}
}

func readDuration(value node, into *time.Duration) {
	text, ok := value.text()
	if !ok {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		value.wrong("%q is no duration; give one such as 90s or 15m", text)
		return
	}
	*into = d
}

func readCount(value node, into *int) {
	text, ok := value.text()
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		value.wrong("%q is no number of at least 1", text)
		return
	}
	*into = n
}
