// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// Options say of which cluster a machine is to be a member, and how.
type Options struct {
	Manager string        // host:port
	Token   string        // for the first time
	Name    string        // in the cluster; "" = as it joined
	Dir     string        // of the certificate and of the list of members
	Every   time.Duration // between two questions for the list of members; 0 = 15 s
	// Clock is the clock for certificates and the list of members; nil = the machine's.
	Clock clockwork.Clock
	Log   *slog.Logger
}

// Membership is this machine's membership in a cluster: its certificate, the manager's
// key, and the list of members.
type Membership struct {
	opts        Options
	log         *slog.Logger
	clock       clockwork.Clock
	credentials *pki.Credentials // renewed in time, see renew.go
	identityMu  sync.Mutex       // held while the identity on the disk changes
	renewNow    chan struct{}
	roster      *roster
	serving     pki.Connections // to peers
	http        *http.Client    // asks the manager

	mu          sync.Mutex
	key         ed25519.PublicKey // of the manager, which signs orders by it
	certificate []byte            // of the manager, as it was answered
}

// New returns the membership of a machine that has joined (Enroll), with the list of
// members that a former process knew.
func New(o Options, id pki.Identity) (*Membership, error) {
	o.Name = id.Name()
	if o.Every == 0 {
		o.Every = membersInterval
	}
	if o.Clock == nil {
		o.Clock = clockwork.NewRealClock()
	}
	m := &Membership{opts: o, log: o.Log, clock: o.Clock, credentials: pki.NewCredentials(id, o.Clock.Now), renewNow: make(chan struct{}, 1)}
	m.credentials.Admit(m.Admit)
	m.http = httpClient(m.credentials.Client(pki.ManagerName))
	var err error
	m.roster, err = openRoster(rosterFile(o.Dir))
	return m, err
}

// Run keeps the certificate and the list of members until ctx ends.
func (m *Membership) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { m.keepCertificate(ctx) })
	running.Go(func() { m.keepMembers(ctx) })
	running.Wait()
}

// Name returns this node's name in the cluster.
func (m *Membership) Name() string { return m.opts.Name }

// Manager returns the manager as this node asks it.
func (m *Membership) Manager() Manager { return Manager{Address: m.opts.Manager, HTTP: m.http} }

// Credentials returns the certificate by which this node connects.
func (m *Membership) Credentials() *pki.Credentials { return m.credentials }

// Identity returns the certificate of now, with its key.
func (m *Membership) Identity() pki.Identity { return m.credentials.Identity() }

// Seal puts a message of this node's into an envelope.
func (m *Membership) Seal(subject wire.Subject, id string, message wire.Message) ([]byte, error) {
	return wire.Seal(m.Identity().Key, m.opts.Name, subject, id, time.Now(), message)
}

// Learn asks the manager what a member has to know, and takes over the manager's key.
func (m *Membership) Learn(ctx context.Context) (wire.Info, error) {
	info, err := Ask[wire.Info](ctx, m.Manager(), http.MethodGet, "/v1/info", nil)
	if err == nil {
		err = m.believe(info)
	}
	return info, err
}

// believe takes over the manager's key from a certificate that the cluster's authority signed.
func (m *Membership) believe(info wire.Info) error {
	chain, err := pki.DecodeCerts(info.Manager)
	if err == nil {
		err = m.credentials.Check(chain, pki.ManagerName)
	}
	if err != nil {
		return fmt.Errorf("certificate of the manager: %w", err)
	}
	key, ok := chain[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return fmt.Errorf("certificate of the manager has a key of type %T; Weir uses Ed25519", chain[0].PublicKey)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.certificate = key, info.Manager
	return nil
}

// IdentityDir returns the folder of a member's certificate and its key, below the folder
// of the member (Options.Dir).
func IdentityDir(dir string) string { return filepath.Join(dir, "identity") }

func (o Options) identityDir() string { return IdentityDir(o.Dir) }

// now returns the clock that certificates are checked by.
func (o Options) now() func() time.Time {
	if o.Clock == nil {
		return time.Now
	}
	return o.Clock.Now
}
