// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"

	"weir/internal/core/wire"
)

// Facts has what a pre-flight has to know of a node.
type Facts struct {
	Node          string          `json:"node"`
	Engine        wire.EngineName `json:"engine"`
	EngineVersion string          `json:"engine_version"` // e.g. "20.10.24"
	Arch          string          `json:"arch"`           // e.g. "x86_64"
	Kernel        string          `json:"kernel"`         // e.g. "6.18.44"
	CPUFlags      []string        `json:"cpu_flags,omitempty"`
	Runtime       string          `json:"runtime"` // of containers, e.g. "runc"
	StorageDriver string          `json:"storage_driver"`
	Cgroups       string          `json:"cgroups"`        // "1" or "2"
	CRIU          string          `json:"criu,omitempty"` // its version; "" = it cannot be run
	CRIUTrouble   string          `json:"criu_trouble,omitempty"`
	// TCP says what CRIU is told (/etc/criu/runc.conf) to do with established
	// connections when it restores: "established", "close" or "" (refuse).
	TCP         string `json:"tcp,omitempty"`
	Checkpoints bool   `json:"checkpoints"` // the engine has them switched on
	UsernsRemap bool   `json:"userns_remap,omitempty"`
	FreeBytes   int64  `json:"free_bytes"`           // where the engine keeps its data
	SoftDirty   bool   `json:"soft_dirty,omitempty"` // memory could be copied ahead
}

// Container is a container to migrate, as its engine describes it.
type Container struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Engine   wire.EngineName `json:"engine"`
	Running  bool            `json:"running"`
	Paused   bool            `json:"paused,omitempty"`
	Pid      int             `json:"pid,omitempty"`
	Image    string          `json:"image"`    // as it was asked for
	ImageID  string          `json:"image_id"` // digest of its configuration
	Layers   int             `json:"layers,omitempty"`
	Restart  string          `json:"restart,omitempty"` // its policy: no, always, on-failure, unless-stopped
	Hostname string          `json:"hostname,omitempty"`

	MemoryBytes int64 `json:"memory_bytes"` // anonymous memory and tmpfs: what a checkpoint has to carry
	LayerBytes  int64 `json:"layer_bytes"`  // what it has written over its image
	ImageBytes  int64 `json:"image_bytes"`

	Volumes     []Volume     `json:"volumes,omitempty"`
	Binds       []BindMount  `json:"binds,omitempty"`
	Networks    []Network    `json:"networks,omitempty"`
	Connections []Connection `json:"connections,omitempty"` // established, to elsewhere
	Bound       []string     `json:"bound,omitempty"`       // addresses of its own that sockets are bound to, e.g. "tcp 172.17.0.2:80"
	Ports       []string     `json:"ports,omitempty"`       // published, e.g. "0.0.0.0:8080/tcp"

	// Obstacles lists the parts of its configuration that cannot be migrated.
	Obstacles []PreflightFinding `json:"obstacles,omitempty"`
	// Config is the engine's own description, from which the copy is made.
	Config json.RawMessage `json:"config,omitempty"`
}

// Volume is managed by the engine, and travels.
type Volume struct {
	Name        string            `json:"name"`
	Driver      string            `json:"driver"`
	Destination string            `json:"destination"` // in the container
	Anonymous   bool              `json:"anonymous,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Bytes       int64             `json:"bytes"`
}

// BindMount is a path of the host's in the container. It has to be on the target too.
type BindMount struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Dir         bool   `json:"dir"`
}

// Network is a network that the container is in.
type Network struct {
	Name   string `json:"name"`
	Driver string `json:"driver"` // bridge, macvlan, overlay, host, none, ...
	IP     string `json:"ip,omitempty"`
	Fixed  bool   `json:"fixed,omitempty"` // the address was asked for, so it will be the same
}

// Connection is an established TCP connection.
type Connection struct {
	Local  string `json:"local"`
	Remote string `json:"remote"`
}

// PreflightFinding is something that a pre-flight found.
type PreflightFinding struct {
	Code    string `json:"code"` // e.g. "bind-missing"; stable, for scripts
	Refuses bool   `json:"refuses"`
	Node    string `json:"node,omitempty"` // whose trouble it is
	Msg     string `json:"message"`        // one line: what, with its value
	Remedy  string `json:"remedy,omitempty"`
}

// String returns the finding as one line.
func (f PreflightFinding) String() string {
	text := f.Msg
	if f.Node != "" {
		text = f.Node + ": " + text
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

func refuse(code, msg, remedy string) PreflightFinding {
	return PreflightFinding{Code: code, Refuses: true, Msg: msg, Remedy: remedy}
}

func warn(code, msg, remedy string) PreflightFinding {
	return PreflightFinding{Code: code, Msg: msg, Remedy: remedy}
}
