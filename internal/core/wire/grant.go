// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Three messages bind a move to what travels. None of them crosses the bus:
//
//	Manifest   source -> manager   POST /v1/grants: what the pre-flight has found
//	Grant      manager -> source   the answer; the source shows it to the target
//	Statement  source -> target    behind each part that travels: its hash
//
// A Move says who may ask whom about which container. It permits the pre-flight and
// nothing else. A Grant permits one target to make one copy of one configuration.

// Limits of a manifest.
const (
	maxParts    = 256 // volumes and a few more
	maxPartName = 300
)

// Manifest says what the source of a move has found in its pre-flight.
type Manifest struct {
	Move        string     `json:"move"`
	Node        string     `json:"node"` // the source
	Container   string     `json:"container"`
	ContainerID string     `json:"container_id"`
	Engine      EngineName `json:"engine"`
	Approach    string     `json:"approach"`
	// Digest is the SHA-256, in hexadecimal digits, of the bytes by which the source
	// describes the copy to the target (call "begin").
	Digest string `json:"digest"`
	// ImageID is the digest of the image's configuration, e.g. sha256:4d1c....
	ImageID string `json:"image_id"`
	// Parts lists what may travel, e.g. "layer", "volume data", "checkpoint"; sorted.
	Parts []string `json:"parts,omitempty"`
	// MemoryBytes is the memory that the container uses, as the source says.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// Grant is the manager's permission for one copy: the target serves it once, and does
// not begin it after Deadline. It is sealed for L.<From>.
type Grant struct {
	Manifest
	From     string    `json:"from"`
	To       string    `json:"to"`
	Registry string    `json:"registry,omitempty"` // that the target may pull from
	Deadline time.Time `json:"deadline"`
	// Change is the policy for which the manager found a place. The target applies it
	// to the copy, and to nothing else, after it has confirmed the copy.
	Change ChangeJSON `json:"change,omitempty"`
}

// GrantAnswer carries a sealed Grant to the source.
type GrantAnswer struct {
	Grant []byte `json:"grant" doc:"envelope of kind grant, sealed for the source's L subject"`
}

// Statement says what has travelled. The source seals it with its own key for
// Statements(target).
type Statement struct {
	Move string `json:"move"`
	Part string `json:"part"`
	// SHA256 is over the bytes as they travelled; of an image that went through a
	// registry, the digest of its manifest. Hexadecimal digits.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes,omitempty"`
	// ImageID is the digest of an image's configuration where the part is an image.
	ImageID string `json:"image_id,omitempty"`
}

// Arrived tells the manager that the target of a move applied to its copy what came
// with it, or what of it could not be applied.
type Arrived struct {
	Move  string `json:"move"`
	Node  string `json:"node"`            // the target
	Error string `json:"error,omitempty"` // "" = everything is in force
}

// Statements returns the subject of statements for a target.
func Statements(target string) Subject { return Subject("P." + target) }

func (Manifest) Kind() string  { return "manifest" }
func (Grant) Kind() string     { return "grant" }
func (Statement) Kind() string { return "statement" }
func (Arrived) Kind() string   { return "arrived" }

var (
	moveForm        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)
	containerIDForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.-]{0,127}$`)
	digestForm      = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)
)

// CheckMove refuses what cannot be a move's id: it names files and labels.
func CheckMove(id string) error {
	if !moveForm.MatchString(id) {
		return fmt.Errorf("move %.80q: an id has up to 63 letters, digits and dashes", id)
	}
	return nil
}

// Check implements Message.
func (m Manifest) Check() error {
	err := cmp.Or(CheckMove(m.Move), CheckNode(m.Node), given("container", m.Container, "image_id", m.ImageID, "engine", string(m.Engine)),
		short(MaxName, "container", m.Container, "image_id", m.ImageID, "engine", string(m.Engine), "approach", m.Approach), checkHash("digest", m.Digest))
	switch {
	case err != nil:
		return err
	case !containerIDForm.MatchString(m.ContainerID):
		return fmt.Errorf("container_id %.150q cannot be a container's id", m.ContainerID)
	case len(m.Parts) > maxParts:
		return fmt.Errorf("%d parts; at most %d can travel", len(m.Parts), maxParts)
	case m.MemoryBytes < 0:
		return fmt.Errorf("memory_bytes is %d", m.MemoryBytes)
	case !slices.IsSorted(m.Parts) || len(slices.Compact(slices.Clone(m.Parts))) != len(m.Parts):
		return errors.New("parts are not sorted, or one is there twice")
	}
	for _, p := range m.Parts {
		if p == "" || len(p) > maxPartName {
			return fmt.Errorf("part %.40q: a name has 1 to %d characters", p, maxPartName)
		}
	}
	return nil
}

// Same reports whether two manifests are about the same copy.
func (m Manifest) Same(o Manifest) bool {
	return m.Move == o.Move && m.Node == o.Node && m.Container == o.Container && m.ContainerID == o.ContainerID && m.Engine == o.Engine &&
		m.Approach == o.Approach && m.Digest == o.Digest && m.ImageID == o.ImageID && slices.Equal(m.Parts, o.Parts)
}

// Check implements Message.
func (g Grant) Check() error {
	if err := cmp.Or(g.Manifest.Check(), CheckNode(g.From), CheckNode(g.To)); err != nil {
		return err
	}
	switch {
	case g.From == g.To:
		return fmt.Errorf("from %s to %s is no move", g.From, g.To)
	case g.Node != g.From:
		return fmt.Errorf("a manifest of %s for a move from %s", g.Node, g.From)
	case g.Deadline.IsZero():
		return errors.New("deadline is missing")
	}
	return nil
}

// Check implements Message.
func (s Statement) Check() error {
	if err := cmp.Or(CheckMove(s.Move), given("part", s.Part), checkHash("sha256", s.SHA256)); err != nil {
		return err
	}
	switch {
	case s.Bytes < 0:
		return fmt.Errorf("bytes is %d", s.Bytes)
	case s.ImageID != "" && !digestForm.MatchString(s.ImageID):
		return fmt.Errorf("image_id %.80q is no digest", s.ImageID)
	}
	return nil
}

// Check implements Message.
func (a Arrived) Check() error {
	return cmp.Or(CheckMove(a.Move), CheckNode(a.Node), short(MaxText, "error", a.Error))
}

// checkHash refuses a text that is no SHA-256 in hexadecimal digits.
func checkHash(field, value string) error {
	if raw, err := hex.DecodeString(value); err != nil || len(raw) != 32 {
		return fmt.Errorf("%s %.80q is no SHA-256 in hexadecimal digits", field, value)
	}
	return nil
}

// Permission reads the Move or the Grant that the manager has sealed; of a Grant, the move
// that it is for.
func (e Envelope) Permission() (m Move, g *Grant, err error) {
	if e.Kind != (Grant{}).Kind() {
		return m, nil, e.Read(&m)
	}
	g = &Grant{}
	if err := e.Read(g); err != nil {
		return m, nil, err
	}
	return Move{ID: g.Move, Container: g.Container, From: g.From, To: g.To, Deadline: g.Deadline, Registry: g.Registry}, g, nil
}
