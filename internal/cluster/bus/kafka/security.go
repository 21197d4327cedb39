// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"weir/internal/base/tlsfile"
	"weir/internal/cluster/bus"
)

// The mechanisms by which a member says who it is, where its certificate does not.
const (
	Scram256 = "SCRAM-SHA-256"
	Scram512 = "SCRAM-SHA-512"
	Plain    = "PLAIN"
)

// Security says how a member connects to the brokers. With the zero value it
// connects in clear and without a name.
type Security struct {
	TLS       bool          // on, with Files; their zero value trusts the system's authorities
	Files     tlsfile.Files // with Cert and Key it is mutual
	Mechanism string        // of SASL, "" = none
	User      string
	// PasswordFile holds the password, and is read for each connection.
	PasswordFile string
}

// CheckForm refuses settings that cannot work together. It reads no file.
func (s Security) CheckForm() error {
	switch {
	case !s.TLS && s.Files.Given():
		return fmt.Errorf("kafka.tls: ca %q, cert %q and key %q are given but TLS is not used; turn it on, or leave them out", s.Files.CA, s.Files.Cert, s.Files.Key)
	case s.Mechanism == "" && (s.User != "" || s.PasswordFile != ""):
		return fmt.Errorf("kafka.sasl: mechanism is missing; give %s, %s or %s", Scram512, Scram256, Plain)
	case s.Mechanism == "":
		return nil
	case s.Mechanism != Scram256 && s.Mechanism != Scram512 && s.Mechanism != Plain:
		return fmt.Errorf("kafka.sasl.mechanism %q: not known; give %s, %s or %s", s.Mechanism, Scram512, Scram256, Plain)
	case s.User == "":
		return errors.New("kafka.sasl: user is missing; give the name by which the brokers know this member")
	case s.PasswordFile == "":
		return errors.New("kafka.sasl: password_file is missing; give a file with the password that only root can read")
	case s.Mechanism == Plain && !s.TLS:
		return fmt.Errorf("kafka.sasl.mechanism %q: it sends the password in clear, and without TLS every host on the path can read it; give kafka: {tls: {ca: FILE}} as well, or use %s", Plain, Scram512)
	}
	return nil
}

// Check is CheckForm, and reads the files.
func (s Security) Check() error {
	if err := s.CheckForm(); err != nil {
		return err
	}
	if err := s.Files.Check(); err != nil {
		return fmt.Errorf("kafka.tls: %w", err)
	}
	if s.Mechanism == "" {
		return nil
	}
	if _, err := tlsfile.Secret(s.PasswordFile); err != nil {
		return fmt.Errorf("kafka.sasl.password_file: %w", err)
	}
	return nil
}

// String returns the part that may be shown: no secret, and no file of one.
func (s Security) String() string {
	how := "in clear"
	switch {
	case s.Files.Cert != "":
		how = "mutual TLS"
	case s.TLS:
		how = "TLS"
	}
	if s.Mechanism != "" {
		how += ", " + s.Mechanism + " as " + s.User
	}
	return how
}

// dialer adds TLS to base, with the files as they are at each connection.
func (s Security) dialer(base dialFunc) dialFunc {
	if !s.TLS {
		return base
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.Files.Dial(ctx, network, address, base)
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// options returns the client's options for SASL. The password is read at each connection.
func (s Security) options() []kgo.Opt {
	var m sasl.Mechanism
	login := func(context.Context) (scram.Auth, error) {
		password, err := tlsfile.Secret(s.PasswordFile)
		return scram.Auth{User: s.User, Pass: password}, err
	}
	switch s.Mechanism {
	case Scram256:
		m = scram.Sha256(login)
	case Scram512:
		m = scram.Sha512(login)
	case Plain:
		m = plain.Plain(func(ctx context.Context) (plain.Auth, error) {
			a, err := login(ctx)
			return plain.Auth{User: a.User, Pass: a.Pass}, err
		})
	default:
		return nil
	}
	return []kgo.Opt{kgo.SASL(m)}
}

// who names the member as the brokers' administrator knows it.
func (s Security) who() string {
	switch {
	case s.User != "":
		return "user " + s.User
	case s.Files.Cert != "":
		return "the certificate in " + s.Files.Cert
	}
	return "a client without a name"
}

// explain puts what the brokers refuse into words that say what to change; such an
// error is permanent.
func (s Security) explain(err error) error {
	if err == nil || Permanent(err) {
		return err
	}
	if words := s.words(err); words != nil {
		return &refusal{words}
	}
	return err
}

// words returns the error in the words of explain; nil for an error about anything else.
func (s Security) words(err error) error {
	var first *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("the broker does not accept %s: there is no such user, or %s holds another password: %w", s.who(), s.PasswordFile, err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("the broker does not offer %s at this address: %w", s.Mechanism, err)
	case denied(err):
		return fmt.Errorf("%w: its access control lists do not let %s do this; docs/cluster.md lists what manager and nodes need: %w", bus.ErrRefused, s.who(), err)
	case !s.TLS && strings.Contains(err.Error(), "plaintext connection speaking to a tls endpoint"): // franz-go has no other sign
		return fmt.Errorf("the broker expects TLS at this address; give kafka: {tls: {ca: FILE}}: %w", err)
	case s.TLS && errors.As(err, &first) && strings.Contains(err.Error(), "after a dial"):
		return fmt.Errorf("the broker closes the connection at the beginning of TLS: does it speak TLS at this address?: %w", err)
	case errors.As(err, &first) && s.Mechanism == "" && !s.TLS:
		return fmt.Errorf("the broker closes the connection at once: it may expect TLS or SASL here; give kafka: {tls: ..., sasl: ...}: %w", err)
	case errors.As(err, &first) && s.Mechanism == "":
		return fmt.Errorf("the broker closes the connection at once: it may expect SASL here; give kafka: {sasl: ...}: %w", err)
	}
	return s.Files.Explanation(err)
}

// denied reports whether the brokers' access control lists forbid something.
func denied(err error) bool {
	for _, refusal := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Permanent reports whether an error of a connection stays until an operator changes a
// setting, here or at the broker: the broker has refused it, and is not merely away.
func Permanent(err error) bool {
	var refused *refusal
	return errors.As(err, &refused)
}

// refusal is an error that explain found words for.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }
