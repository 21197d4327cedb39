// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/base/safepath"
	"weir/internal/base/statefile"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

const (
	trustFile = "trust.json"
	// formerAuthority is how long an authority counts after a successor of it was seen:
	// as long as the manager lets a rotation take.
	formerAuthority = 2 * pki.CertificateLife
	mostManagers    = 8 // keys that are remembered; one a rotation
)

// Sources says where Trust finds out, once, to which cluster this machine belongs.
type Sources struct {
	Identity  string // folder of the agent's certificate
	TokenFile string // cluster.token_file; the agent cannot write it. "" = none
	Name      string // cluster.name; "" = as the agent has joined
}

// Trust is whom this machine believes to be its manager. It is pinned: the name of the
// node and the authority are read from the agent's folder the first time, and from the
// own file after that. So an agent that is taken over later cannot put another
// authority in its place.
type Trust struct {
	file    string
	sources Sources
	now     func() time.Time
	log     *slog.Logger
	kept    keptTrust
}

// keptTrust is the file of a Trust.
type keptTrust struct {
	Node        string       `json:"node"`
	Authorities []authority  `json:"authorities"`
	Managers    []managerKey `json:"managers,omitempty"`
}

type authority struct {
	Cert  []byte    `json:"cert"`           // DER
	Until time.Time `json:"until,omitzero"` // it does not count after that; zero = it is the present one
}

// managerKey is a key that a certificate for the manager has vouched for.
type managerKey struct {
	Key   ed25519.PublicKey `json:"key"`
	Until time.Time         `json:"until"` // end of that certificate
}

func openTrust(dir string, s Sources, now func() time.Time, log *slog.Logger) (*Trust, error) {
	t := &Trust{file: filepath.Join(dir, trustFile), sources: s, now: now, log: log}
	if err := statefile.Read(t.file, &t.kept); err != nil {
		return nil, fmt.Errorf("%w; if it is damaged, remove it: the cluster's authority is pinned anew", err)
	}
	return t, nil
}

func (t *Trust) save(k keptTrust) error {
	err := statefile.Write(t.file, k)
	if err == nil {
		t.kept = k
	}
	return err
}

// node is this machine's name in the cluster. It is pinned, with the authority, when it
// is asked for first.
func (t *Trust) node() (string, error) {
	if t.kept.Node != "" {
		return t.kept.Node, nil
	}
	id, err := pki.LoadIdentity(t.sources.Identity)
	if err != nil {
		return "", fmt.Errorf("this machine has not joined a cluster: %w", err)
	}
	if want := t.sources.Name; want != "" && want != id.Name() {
		return "", fmt.Errorf("the certificate in %s is %s's, and cluster.name is %s", t.sources.Identity, id.Name(), want)
	}
	first, how, err := t.first(id)
	if err != nil {
		return "", err
	}
	id.Trusted = first
	chain, err := pki.DecodeCerts(id.Bundle())
	if err == nil {
		err = pki.NewCredentials(id, t.now).Check(chain, pki.NodeName(id.Name()))
	}
	if err != nil {
		return "", fmt.Errorf("certificate in %s: %w", t.sources.Identity, err)
	}
	k := keptTrust{Node: id.Name()}
	for i, c := range first {
		a := authority{Cert: c.Raw}
		if i > 0 { // during a rotation: the one before
			a.Until = t.now().Add(formerAuthority).UTC()
		}
		k.Authorities = append(k.Authorities, a)
		hash := pki.Hash(c)
		t.log.Warn("authority of the cluster pinned", "node", k.Node, "authority", fmt.Sprintf("%x", hash[:8]), "by", how, "file", t.file)
	}
	return k.Node, t.save(k)
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 4096

// first returns the authority to pin: the authority of the token, if there is one to
// compare with, and else what the agent trusts now.
func (t *Trust) first(id pki.Identity) (list []*x509.Certificate, how string, err error) {
	trusted := id.Trusted
	if t.sources.TokenFile == "" {
		return trusted, "the agent's folder", nil
	}
	text, _, err := safepath.Read(t.sources.TokenFile, maxToken)
	if errors.Is(err, fs.ErrNotExist) {
		return trusted, "the agent's folder", nil // it may be removed once the node has joined
	}
	if err != nil {
		return nil, "", fmt.Errorf("token %s: %w", t.sources.TokenFile, err)
	}
	token, err := pki.ParseToken(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", t.sources.TokenFile, err)
	}
	list = slices.DeleteFunc(slices.Clone(trusted), func(c *x509.Certificate) bool { return pki.Hash(c) != token.Authority })
	if len(list) == 0 {
		return nil, "", fmt.Errorf("the token in %s is of another authority than the agent trusts; put a new one there (weir manager token create), or remove it to believe the agent's folder once", t.sources.TokenFile)
	}
	return list, "the token", nil
}

// verify says whether an envelope is sealed by the manager: by a key that was known
// before, or by that of the certificate which the agent shows with it.
func (t *Trust) verify(e wire.Envelope, subject wire.Subject, w remote.Warrant) error {
	if e.From != wire.Manager {
		return fmt.Errorf("%w: only the manager gives orders", wire.ErrForged)
	}
	now := t.now()
	for _, m := range t.kept.Managers {
		if now.Before(m.Until) && e.Verify(m.Key, subject) == nil {
			return nil
		}
	}
	chain, err := pki.DecodeCerts(w.Manager)
	if err == nil {
		err = t.check(chain, now)
	}
	if err != nil {
		return fmt.Errorf("certificate of the manager: %w", err)
	}
	key, _ := chain[0].PublicKey.(ed25519.PublicKey)
	if err := e.Verify(key, subject); err != nil {
		return err
	}
	return t.learn(chain, managerKey{key, chain[0].NotAfter}, now)
}

// check verifies a certificate of the manager by the authorities that count now.
func (t *Trust) check(chain []*x509.Certificate, now time.Time) error {
	var trusted []*x509.Certificate
	for _, a := range t.kept.Authorities {
		cert, err := x509.ParseCertificate(a.Cert)
		if err != nil {
			return err
		}
		if a.Until.IsZero() || now.Before(a.Until) {
			trusted = append(trusted, cert)
		}
	}
	return pki.NewCredentials(pki.Identity{Trusted: trusted}, t.now).Check(chain, pki.ManagerName)
}

// learn remembers the key of a certificate that was verified, and its authority if that
// is a successor of a known one.
func (t *Trust) learn(chain []*x509.Certificate, m managerKey, now time.Time) error {
	k := keptTrust{Node: t.kept.Node, Managers: []managerKey{m}}
	for _, old := range t.kept.Managers {
		if now.Before(old.Until) && !bytes.Equal(old.Key, m.Key) && len(k.Managers) < mostManagers {
			k.Managers = append(k.Managers, old)
		}
	}
	known := func(c *x509.Certificate) bool {
		return slices.ContainsFunc(t.kept.Authorities, func(a authority) bool { return bytes.Equal(a.Cert, c.Raw) })
	}
	for _, a := range t.kept.Authorities {
		if a.Until.IsZero() || now.Before(a.Until) {
			k.Authorities = append(k.Authorities, a)
		}
	}
	signer := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return c.IsCA && chain[0].CheckSignatureFrom(c) == nil })
	if signer >= 0 && !known(chain[signer]) {
		for i, a := range k.Authorities {
			if a.Until.IsZero() {
				k.Authorities[i].Until = now.Add(formerAuthority).UTC()
			}
		}
		k.Authorities = append(k.Authorities, authority{Cert: chain[signer].Raw})
		hash := pki.Hash(chain[signer])
		t.log.Warn("the cluster has a new authority", "authority", fmt.Sprintf("%x", hash[:8]))
	}
	return t.save(k)
}
