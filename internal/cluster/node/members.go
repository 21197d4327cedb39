// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// A node believes only the manager and the members on the manager's signed list. It
// asks for the list every membersInterval, keeps the newest on its disk, and
//
//	serves and speaks to a peer    only if the peer is on the list with the key it shows
//	begins a move                  only by a list that the manager confirmed within wire.MembersFresh
//	goes on with a move            by the last list that it has: a manager that is away
//	                               must not leave a container between two nodes
//	ends a move to a former member by the key that this one had; nothing is begun with it
const (
	membersInterval = 15 * time.Second
	membersTimeout  = 3 * time.Second
	membersPause    = time.Second         // between two times that a peer can make a node ask
	keepDeparted    = 30 * 24 * time.Hour // for a move that was begun with them
)

// errNoMember is wrapped where a peer is refused because it is not on the list.
var errNoMember = errors.New("is no member of this cluster")

// roster is the list of members as this node knows it.
type roster struct {
	file string

	asking sync.Mutex // one request at a time

	forPeers sync.Mutex
	asked    time.Time // when a peer was the reason last
	answered bool      // whether the manager answered then

	mu        sync.Mutex
	list      wire.Members
	confirmed time.Time // by this node's clock: when the request began that the manager answered last
	departed  map[string]departed
}

// departed is a member that is not on the list any more.
type departed struct {
	Key   ed25519.PublicKey `json:"key"`
	Since time.Time         `json:"since"`
}

// keptRoster is the file of a roster. Only its user can write it; the signature was
// checked before it was written.
type keptRoster struct {
	Members  wire.Members        `json:"members"`
	Departed map[string]departed `json:"departed,omitempty"`
}

// openRoster reads what a former process knew, which may be nothing.
func openRoster(file string) (*roster, error) {
	r := &roster{file: file, departed: map[string]departed{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var k keptRoster
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("list of members: %s: %w; if it is damaged, remove it: the manager has it", file, err)
	}
	r.list = k.Members
	if k.Departed != nil {
		r.departed = k.Departed
	}
	return r, nil
}

// sequence returns the sequence number of the list, 0 if there is none.
func (r *roster) sequence() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Sequence
}

// key returns a member's key, nil if the node is no member.
func (r *roster) key(node string) ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.KeyOf(node)
}

// keyOfTarget returns the key of a member, or of one that was a member not long ago.
func (r *roster) keyOfTarget(node string) ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := r.list.KeyOf(node); key != nil {
		return key
	}
	return r.departed[node].Key
}

// managers returns the keys whose signatures count as the manager's.
func (r *roster) managers() []ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list.Managers)
}

// age returns how long ago the manager confirmed the list.
func (r *roster) age(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.confirmed.IsZero() {
		return 1<<63 - 1
	}
	return now.Sub(r.confirmed)
}

// take puts a newer list in the place of the one that was, on the disk first.
func (r *roster) take(list wire.Members, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list.Sequence < r.list.Sequence {
		return fmt.Errorf("the list of members has sequence %d, and %d was here", list.Sequence, r.list.Sequence)
	}
	gone := maps.Clone(r.departed)
	for _, m := range r.list.Members {
		if list.KeyOf(m.Name) == nil {
			gone[m.Name] = departed{m.Key, now.UTC()}
		}
	}
	maps.DeleteFunc(gone, func(name string, d departed) bool {
		return list.KeyOf(name) != nil || now.Sub(d.Since) > keepDeparted
	})
	text, err := json.Marshal(keptRoster{list, gone})
	if err == nil {
		err = atomicfile.Write(r.file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("list of members cannot be kept: %w", err)
	}
	r.list, r.departed = list, gone
	return nil
}

func (r *roster) confirm(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = at
}

// keepMembers asks for the list again and again until ctx ends.
func (n *Node) keepMembers(ctx context.Context) {
	for failed := false; ; {
		every := n.opts.MembersInterval
		err := n.askMembers(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			n.log.Warn("the list of members cannot be asked for, trying again", "manager", n.opts.Manager, "err", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-n.clock.After(every*3/4 + rand.N(every/2)):
		}
	}
}

// askMembers asks the manager for the list and takes it over.
func (n *Node) askMembers(ctx context.Context) error {
	n.roster.asking.Lock()
	defer n.roster.asking.Unlock()
	began, have := n.clock.Now(), n.roster.sequence()
	answer, err := ask[wire.MembersAnswer](ctx, n.client(), n.opts.Manager, http.MethodGet, "/v1/members?have="+strconv.FormatUint(have, 10), nil)
	if err != nil {
		if refusedInTLS(err) {
			n.renewSoon() // the manager does not take the certificate
		}
		return err
	}
	statement, err := n.openStatement(ctx, answer.Statement)
	switch {
	case err != nil:
		return err
	case len(answer.Members) == 0 && statement.Sequence != have:
		return fmt.Errorf("%w: a list of members with sequence %d was announced and not sent", wire.ErrMalformed, statement.Sequence)
	case len(answer.Members) > 0:
		list, err := wire.ReadMembers(answer.Members, statement)
		if err == nil {
			err = n.roster.take(list, began)
		}
		if err == nil {
			err = n.trust(list)
		}
		if err != nil {
			return err
		}
		n.cutOff()
	}
	n.roster.confirm(began)
	return nil
}

// openStatement verifies what the manager says of its list: by a key that counts as
// the manager's, or else by the one in the manager's certificate.
func (n *Node) openStatement(ctx context.Context, sealed []byte) (s wire.MembersStatement, err error) {
	e, err := wire.Open(sealed)
	if err == nil {
		err = n.byManager(e, wire.MembersSubject)
	}
	if err != nil { // the first list, or the manager has a new key
		info, failed := ask[wire.Info](ctx, n.client(), n.opts.Manager, http.MethodGet, "/v1/info", nil)
		if failed == nil {
			failed = n.believe(info)
		}
		if failed != nil {
			return s, errors.Join(err, failed)
		}
		err = n.byManager(e, wire.MembersSubject)
	}
	if err != nil {
		return s, err
	}
	return s, e.Read(&s)
}

// byManager says whether an envelope was sealed by a key that counts as the manager's.
func (n *Node) byManager(e wire.Envelope, on wire.Subject) error {
	if e.From != wire.Manager {
		return fmt.Errorf("%w: only the manager gives orders", wire.ErrForged)
	}
	n.mu.Lock()
	keys := append(n.roster.managers(), n.manager)
	n.mu.Unlock()
	err := fmt.Errorf("%w: not signed by %s", wire.ErrForged, e.From)
	for _, key := range keys {
		if len(key) == 0 {
			continue
		}
		if err = e.Verify(key, on); err == nil {
			return nil
		}
	}
	return err
}

// trust takes over the authorities of a list.
func (n *Node) trust(list wire.Members) error {
	var authorities []*x509.Certificate
	for _, der := range list.Authorities {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("authority on the list of members: %w", err)
		}
		authorities = append(authorities, cert)
	}
	n.identityMu.Lock()
	defer n.identityMu.Unlock()
	id := n.identity()
	if slices.EqualFunc(id.Trusted, authorities, (*x509.Certificate).Equal) {
		return nil
	}
	id.Trusted = authorities
	if err := id.Save(n.opts.identityDir()); err != nil {
		return fmt.Errorf("authorities cannot be kept: %w", err)
	}
	n.credentials.Replace(id)
	if !id.Authority.Equal(authorities[0]) {
		n.log.Info("the cluster has a new authority; asking for a certificate of it")
		n.renewSoon()
	}
	return nil
}

// admit says why a peer that connects, or that sends a request, is refused, or nil.
func (n *Node) admit(node string, cert *x509.Certificate) error {
	return n.check(node, cert, n.roster.key)
}

// clientTLS returns the TLS configuration by which this node connects to a peer. It
// accepts a removed peer by the key that this one had: a move that was begun with it
// has to come to its end. It cannot begin one, see mayBegin.
func (n *Node) clientTLS(to string) *tls.Config {
	cfg := n.credentials.Client(pki.NodeName(to))
	inOrder := cfg.VerifyConnection
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if err := inOrder(state); err != nil {
			return err
		}
		if err := n.check(to, state.PeerCertificates[0], n.roster.keyOfTarget); err != nil {
			return fmt.Errorf("node %s %w", to, err)
		}
		return nil
	}
	return cfg
}

// check compares a peer's key with the one that is known. Where that fails, the manager
// is asked: it may know the peer only since a moment ago.
func (n *Node) check(node string, cert *x509.Certificate, keyOf func(string) ed25519.PublicKey) error {
	err := compareKey(cert, keyOf(node))
	if err != nil && n.askForPeer() {
		err = compareKey(cert, keyOf(node))
	}
	return err
}

func compareKey(cert *x509.Certificate, known ed25519.PublicKey) error {
	key, _ := cert.PublicKey.(ed25519.PublicKey)
	switch {
	case known == nil:
		return fmt.Errorf("%w (it was removed, or has joined just now)", errNoMember)
	case !bytes.Equal(known, key):
		return fmt.Errorf("%w with this key (another machine has joined by its name)", errNoMember)
	}
	return nil
}

// askForPeer asks for the list because of a peer that is not on it: it may have joined
// just now. It reports whether the manager has answered since the call. Strangers can
// make it ask once in membersPause; a call that comes meanwhile waits for the next
// answer.
func (n *Node) askForPeer() bool {
	came := time.Now()
	n.roster.forPeers.Lock()
	defer n.roster.forPeers.Unlock()
	if n.roster.asked.After(came) {
		return n.roster.answered
	}
	time.Sleep(membersPause - time.Since(n.roster.asked))
	ctx, cancel := context.WithTimeout(context.Background(), membersTimeout)
	defer cancel()
	n.roster.asked = time.Now()
	n.roster.answered = n.askMembers(ctx) == nil
	return n.roster.answered
}

// askUnlessLately calls askForPeer for a caller that must not keep this node waiting:
// where another call asks now, or has asked within membersPause, it does not ask again.
func (n *Node) askUnlessLately() bool {
	if !n.roster.forPeers.TryLock() {
		return false
	}
	lately := time.Since(n.roster.asked) < membersPause
	n.roster.forPeers.Unlock()
	return !lately && n.askForPeer()
}

// cutOff closes the connections of peers that are not on the list any more.
func (n *Node) cutOff() {
	if cut := n.serving.CloseUnless(func(node string) bool { return n.roster.key(node) != nil }); cut > 0 {
		n.log.Info("connections of nodes that were removed are closed", "connections", cut)
	}
}

func rosterFile(dir string) string { return filepath.Join(dir, "members.json") }
