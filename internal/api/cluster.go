// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"time"

	"weir/internal/core/wire"
)

// The types in this file cross the manager's socket.

// Cluster is the manager's view of itself.
type Cluster struct {
	Version   string    `json:"version"`
	Started   time.Time `json:"started"`
	Address   string    `json:"address" doc:"host:port where nodes join"`
	Bus       string    `json:"bus" example:"nats" doc:"nats, or kafka://HOST:PORT,..."`
	BusUp     bool      `json:"bus_up"`
	Registry  string    `json:"registry,omitempty" doc:"host:port of the image registry that migrations use; manager: its own; empty: none"`
	Images    *Images   `json:"images,omitempty" doc:"content of the manager's own registry; absent if it has none"`
	Nodes     int       `json:"nodes"`
	NodesUp   int       `json:"nodes_up" doc:"those heard of lately"`
	Waiting   int       `json:"waiting" doc:"moves that have not begun"`
	Running   int       `json:"running" doc:"moves under way"`
	Automatic Automatic `json:"automatic"`
	Authority Authority `json:"authority"`
	Refused   uint64    `json:"refused" doc:"messages and connections refused since the start: forged, malformed, or of no member"`
}

// Authority is the key pair that signs the cluster's certificates.
type Authority struct {
	Hash            string    `json:"hash" doc:"first 16 hexadecimal digits of the SHA-256 of its public key"`
	Ends            time.Time `json:"ends"`
	CertificateEnds time.Time `json:"certificate_ends" doc:"of the manager's own certificate, which is renewed long before"`
	Rotation        *Rotation `json:"rotation,omitempty" doc:"there while it takes the place of a former one"`
}

// Rotation is the replacement of one authority by another.
type Rotation struct {
	Started time.Time `json:"started"`
	Nodes   int       `json:"nodes"`
	Renewed int       `json:"renewed" doc:"nodes that have a certificate of the new authority"`
	Behind  []string  `json:"behind" doc:"nodes that have none yet"`
	EndsBy  time.Time `json:"ends_by" doc:"when the former authority counts no more at the latest; before that, when all nodes have renewed"`
}

// Images is the content of the manager's own image registry, in bytes.
type Images struct {
	Bytes          uint64            `json:"bytes"`
	LimitBytes     uint64            `json:"limit_bytes"`
	Nodes          map[string]uint64 `json:"nodes" doc:"by the node that pushed them first; empty name: the node is not known"`
	NodeLimitBytes uint64            `json:"node_limit_bytes" doc:"for each node"`
	KeepFreeBytes  uint64            `json:"keep_free_bytes" doc:"of the disk, that stay free"`
	Uploads        int               `json:"uploads" doc:"under way"`
	Refused        uint64            `json:"refused" doc:"requests refused since the start: without a right, or over a limit"`
}

// Automatic holds the settings of moves that the manager makes without a request.
type Automatic struct {
	Enabled          bool      `json:"enabled"`
	IntervalSeconds  float64   `json:"interval_seconds" doc:"between two looks at the cluster"`
	Hysteresis       float64   `json:"hysteresis" doc:"by what part S has to fall for moves to be worth it, 0 to 1"`
	Above            float64   `json:"above" doc:"nodes that use at most this part of each resource are left alone, 0 to 1; 0 = none"`
	CooldownSeconds  float64   `json:"cooldown_seconds" doc:"for which a container that moved stays where it is"`
	MovesAtOnce      int       `json:"moves_at_once"`
	MovesPerHour     int       `json:"moves_per_hour"`
	QuietHours       []string  `json:"quiet_hours" doc:"times of day, local, without moves" example:"22:00-06:00"`
	Last             time.Time `json:"last,omitzero" doc:"when it looked last"`
	LastResult       string    `json:"last_result,omitempty" doc:"its last action, and the reason"`
	AlphaOfFitness   float64   `json:"alpha" doc:"how much S counts against the cost of moves, 0 to 1"`
	MeasureOfFitness string    `json:"measure" enum:"load,mean"`
}

// NodeState says whether the manager hears of a node.
type NodeState string

// The states of a node.
const (
	NodeUp     NodeState = "up"
	NodeLost   NodeState = "lost"   // not heard of lately
	NodeJoined NodeState = "joined" // never heard of
)

// Node is one node of the cluster.
type Node struct {
	Name          string    `json:"name"`
	State         NodeState `json:"state" enum:"up,lost,joined" doc:"lost: not heard of lately; joined: never heard of"`
	Address       string    `json:"address,omitempty" doc:"host:port where other nodes reach it"`
	Joined        time.Time `json:"joined"`
	Heard         time.Time `json:"heard,omitzero" doc:"of its last heartbeat"`
	Profiled      time.Time `json:"profiled,omitzero" doc:"when its last profile came; the manager does not plan with an old one"`
	Weir          string    `json:"weir,omitempty" doc:"version of its agent"`
	Kernel        string    `json:"kernel,omitempty"`
	Engines       []string  `json:"engines"`
	CRIU          string    `json:"criu,omitempty" doc:"empty if containers cannot be checkpointed there"`
	Containers    int       `json:"containers"`
	CPUCores      float64   `json:"cpu_cores" doc:"used"`
	CPUCapacity   float64   `json:"cpu_capacity"`
	MemoryBytes   uint64    `json:"memory_bytes" doc:"used"`
	MemoryTotal   uint64    `json:"memory_total_bytes"`
	TransmitBps   float64   `json:"transmit_bps" doc:"egress (upload)"`
	ReservedBps   uint64    `json:"reserved_bps" doc:"sum of the mins on its link"`
	GuaranteedBps uint64    `json:"guaranteed_bps" doc:"the largest sum of mins"`
	// CertificateEnds is zero for a node that has not renewed since a former version.
	CertificateEnds time.Time `json:"certificate_ends,omitzero" doc:"of its present certificate, which it renews long before"`
	Missing         []string  `json:"missing" doc:"what cannot be measured there"`
	Trouble         string    `json:"trouble,omitempty" doc:"why the manager does not plan with it, though it sends heartbeats"`
}

// ClusterContainer is one container of the cluster.
type ClusterContainer struct {
	Name          string          `json:"name"`
	ID            string          `json:"id"`
	Node          string          `json:"node"`
	Engine        wire.EngineName `json:"engine"`
	Image         string          `json:"image"`
	CPUCores      float64         `json:"cpu_cores"`
	MemoryBytes   uint64          `json:"memory_bytes"`
	TransmitBps   float64         `json:"transmit_bps" doc:"egress (upload)"`
	ReceiveBps    float64         `json:"receive_bps"`
	Weight        uint32          `json:"weight,omitempty"`
	MinBps        uint64          `json:"min_bps" doc:"guaranteed"`
	MaxBps        uint64          `json:"max_bps"`
	RefusedMinBps uint64          `json:"refused_min_bps,omitempty" doc:"asked for and not held by its node"`
	Pinned        bool            `json:"pinned,omitempty"`
	Move          string          `json:"move,omitempty" doc:"id of the move that it is in"`
}

// PlanRequest asks for a plan. Zero values mean the manager's settings.
type PlanRequest struct {
	MaxMoves  int      `json:"max_moves,omitempty" minimum:"0" doc:"no more than so many; 0 = no limit"`
	Alpha     *float64 `json:"alpha,omitempty" minimum:"0" maximum:"1"`
	Above     *float64 `json:"above,omitempty" minimum:"0" maximum:"1" doc:"leave alone nodes that use at most this part of each resource; 0 = none"`
	Algorithm string   `json:"algorithm,omitempty" enum:"local,genetic,genetic-seeded" doc:"empty = local"`
	Measure   string   `json:"measure,omitempty" enum:"load,mean" doc:"empty = load"`
}

// ClusterPlan is a list of moves that the manager would make, or is making, with their
// purpose.
type ClusterPlan struct {
	Applied   bool       `json:"applied" doc:"the moves are ordered"`
	Algorithm string     `json:"algorithm"`
	Alpha     float64    `json:"alpha"`
	Above     float64    `json:"above" doc:"nodes that use at most this part of each resource are left alone; 0 = none"`
	Calm      int        `json:"calm" doc:"how many nodes are"`
	Seconds   float64    `json:"seconds" doc:"that the computation took"`
	Before    ClusterFit `json:"before"`
	After     ClusterFit `json:"after"`
	Moves     []PlanMove `json:"moves" doc:"in the order in which they are made"`
	Nodes     []PlanNode `json:"nodes" doc:"each before and after"`
	Held      []PlanHeld `json:"held" doc:"containers that stay though they could move, and why"`
	Unknown   []string   `json:"unknown" doc:"nodes without a present profile; they are left as they are"`
	Refusals  []string   `json:"refusals" doc:"containers and senders that nodes do not accept, so no move of them is planned"`
}

// ClusterFit measures how even a cluster's load is.
type ClusterFit struct {
	S         float64            `json:"s" doc:"variance of the nodes' utilisation, added up over the resources"`
	Variance  map[string]float64 `json:"variance" doc:"by resource; their sum is S"`
	Peak      map[string]float64 `json:"peak" doc:"by resource: the highest utilisation of a node, 1 = full"`
	FreeBps   uint64             `json:"free_guaranteed_bps" doc:"mins that the node with most room could still take"`
	FreeNode  string             `json:"free_node,omitempty" doc:"which one that is"`
	Seconds   float64            `json:"seconds" doc:"of all moves one after the other"`
	MoveBytes float64            `json:"bytes" doc:"that have to travel"`
}

// PlanMove is one move of a plan.
type PlanMove struct {
	ID        string  `json:"id,omitempty" doc:"if it is ordered"`
	Container string  `json:"container"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Why       string  `json:"why"`
	S         float64 `json:"s" doc:"after this move and those before it"`
	Bytes     float64 `json:"bytes"`
	Seconds   float64 `json:"seconds"`
}

// PlanNode is a node before and after a plan.
type PlanNode struct {
	Name   string   `json:"name"`
	Before NodeLoad `json:"before"`
	After  NodeLoad `json:"after"`
}

// NodeLoad is the load of a node, with the rate that its mins may still take.
type NodeLoad struct {
	Containers int     `json:"containers"`
	CPU        float64 `json:"cpu" doc:"1 = full"`
	Memory     float64 `json:"memory"`
	FreeBps    uint64  `json:"free_guaranteed_bps" doc:"what mins may still take"`
}

// PlanHeld is a container that a plan leaves where it is, with the reason.
type PlanHeld struct {
	Container string `json:"container"`
	Node      string `json:"node"`
	Why       string `json:"why"`
}

// MoveRequest asks for one container to be moved.
type MoveRequest struct {
	Container string `json:"container" doc:"name, prefix of its id, or NODE/NAME"`
	To        string `json:"to" doc:"node"`
	Approach  string `json:"approach,omitempty" doc:"how its files travel; empty = the fastest that is possible"`
}

// Move is one migration as the manager knows it.
type Move struct {
	ID        string         `json:"id"`
	Container string         `json:"container"`
	From      string         `json:"from"`
	To        string         `json:"to"`
	Why       string         `json:"why"`
	State     wire.MoveState `json:"state" enum:"waiting,ordered,running,done,rolled-back,refused,failed,expired,cancelled,lost" doc:"lost: its source reports no progress; a late report of its end still counts"`
	Step      string         `json:"step,omitempty" doc:"that it is in, or ended with"`
	Created   time.Time      `json:"created"`
	Ended     time.Time      `json:"ended,omitzero"`
	Bytes     uint64         `json:"bytes" doc:"that crossed the network"`
	DownMS    float64        `json:"downtime_ms" doc:"for which the container did not run"`
	Error     string         `json:"error,omitempty"`
	Steps     []MoveStep     `json:"steps"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Cancel    string         `json:"cancel,omitempty" doc:"that it is to be cancelled, or why it goes on all the same"`
	// Guarantee is set if the purpose of the move is a min that a node had to refuse.
	Guarantee string `json:"guarantee,omitempty" doc:"what came of the min that it is for"`
}

// MoveStep is one step of a migration.
type MoveStep struct {
	Step       string  `json:"step"`
	Bytes      uint64  `json:"bytes"`
	DurationMS float64 `json:"duration_ms"`
	Error      string  `json:"error,omitempty"`
}

// Cancellation is the effect of a request to cancel a move, or, in a dry run, the effect
// it would have.
type Cancellation struct {
	Effect string `json:"effect" enum:"ended,asked,closed" doc:"ended: it had not begun; asked: its source goes back unless it is too late; closed: its source is not heard of"`
	Text   string `json:"text" doc:"the same for people"`
	Move   Move   `json:"move"`
	DryRun bool   `json:"dry_run,omitempty" doc:"no change was made"`
}

// Snapshot is the state of a manager.
type Snapshot struct {
	Created time.Time `json:"created"`
	Nodes   int       `json:"nodes" doc:"members"`
	Moves   int       `json:"moves" doc:"that have not ended"`
	Data    []byte    `json:"data" doc:"the file for weir manager restore, base64; it holds the authority's key"`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	TTLSeconds float64 `json:"ttl_seconds,omitempty" doc:"for which it may be used; 0 = 24 hours" minimum:"0"`
	Node       string  `json:"node,omitempty" doc:"the only node that may use it; empty = any"`
	Uses       int     `json:"uses,omitempty" minimum:"-1" doc:"how many nodes may join by it; 0 = one, -1 = any number"`
}

// AnyNumber is the number of uses of a token that any number of nodes may join by.
const AnyNumber = -1

// Token lets nodes join. Token itself is there only when it is made.
type Token struct {
	ID      string    `json:"id"`
	Token   string    `json:"token,omitempty"`
	Node    string    `json:"node,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Joined  int       `json:"joined" doc:"nodes that used it"`
	Uses    int       `json:"uses" doc:"nodes that may use it; -1 = any number"`
}

// Manager is the interface of a manager to its server. Errors are *Error where the caller
// made a mistake.
type Manager interface {
	Cluster(ctx context.Context) (Cluster, error)
	Nodes(ctx context.Context) ([]Node, error)
	// RemoveNode throws a node out: its certificate counts no more.
	RemoveNode(ctx context.Context, name string) (Node, error)
	Containers(ctx context.Context) ([]ClusterContainer, error)
	// Plan says what would be moved; nothing is.
	Plan(ctx context.Context, req PlanRequest) (ClusterPlan, error)
	// Rebalance makes a plan and orders its moves.
	Rebalance(ctx context.Context, req PlanRequest) (ClusterPlan, error)
	// Moves returns the moves under way and those that ended lately, the newest first.
	Moves(ctx context.Context) ([]Move, error)
	// Move finds one by its id or a prefix of it.
	Move(ctx context.Context, id string) (Move, error)
	// Migrate orders a move; with dryRun it orders only the pre-flight, and waits for its
	// result.
	Migrate(ctx context.Context, req MoveRequest, dryRun bool) (Move, error)
	// CancelMove ends a move that waits, and has the source of one under way go back; with
	// dryRun it says which of them it would do.
	CancelMove(ctx context.Context, id string, dryRun bool) (Cancellation, error)
	NewToken(ctx context.Context, req TokenRequest) (Token, error)
	Tokens(ctx context.Context) ([]Token, error)
	// Snapshot is the manager's whole state, keys included.
	Snapshot(ctx context.Context) (Snapshot, error)
	RevokeToken(ctx context.Context, id string) (Token, error)
	// RotateAuthority begins to replace the authority; Cluster says how far it is.
	RotateAuthority(ctx context.Context) (Authority, error)
}
