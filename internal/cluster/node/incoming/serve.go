// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"weir/internal/base/crowd"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/gate"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/warrant"
	"weir/internal/core/wire"
)

// What another node may do here, and by which permission:
//
//	facts, lacking   the manager's Move, before its deadline: nothing is changed
//	begin            the manager's Grant, before its deadline: the container is described
//	do, receive      the same Grant, once each, for what was begun (guests.go)
//
// The other node may be hostile. It is believed nothing but which container of its own
// it wants to get rid of: the steps of a source are not served at all, and ids, names,
// volumes, networks and the registry come from the description whose hash is granted,
// which this node examines by its own rules (cluster.accept).

// Handler answers the calls of other nodes, over TLS alone.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+remote.Path+"{verb}", s.limited(s.recorded(s.serveMigrate)))
	return mux
}

// serve answers other nodes until ctx ends.
func (s *Server) serve(ctx context.Context, ln net.Listener) {
	if ln == nil {
		return
	}
	srv := crowd.NewServer(s.Handler(), s.log, slog.LevelWarn)
	srv.ConnContext = pki.WithConnection
	at := gate.Listen(ln)
	cfg := gate.Guard(s.opts.Members.ServerTLS(), func(string, *x509.Certificate) bool { return true }) // the handshake takes no others
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tls.NewListener(at, cfg)) }()
	select {
	case <-ctx.Done():
		srv.Close() // a migration that is cut off is settled by its journal
	case err := <-ended:
		s.log.Error("other nodes cannot reach this one any more", "err", err)
	}
}

// permission is the manager's signed permission for a call, and the node that makes it.
type permission struct {
	source string
	key    ed25519.PublicKey // of the source's certificate
	move   wire.Move         // for the pre-flight
	grant  *wire.Grant       // for the rest; nil = there is none
	sealed []byte            // the one or the other, as the manager has sealed it
}

// permit says what permission a request has.
func (s *Server) permit(r *http.Request) (p permission, err error) {
	source, cert, err := pki.Node(*r.TLS)
	if err == nil {
		err = s.opts.Members.Admit(source, cert)
	}
	if err != nil {
		return p, move.Deny(move.WhyStranger, move.CodeDenied, "node %s %v", source, err)
	}
	p.source = source
	p.key, _ = cert.PublicKey.(ed25519.PublicKey)
	sealed, err := base64.StdEncoding.DecodeString(r.Header.Get(remote.OrderHeader))
	if err != nil || len(sealed) == 0 {
		return p, move.Deny(move.WhyStranger, move.CodeDenied, "node %s shows no order of the manager's", source)
	}
	p.sealed = sealed
	e, err := s.opts.Members.VerifyForPeer(sealed, wire.Orders.Of(source))
	if err != nil {
		return p, move.Deny(move.WhyForged, move.CodeDenied, "order that node %s shows: %v", source, err)
	}
	p.move, p.grant, err = e.Permission()
	switch {
	case err != nil:
		return p, move.Deny(move.WhyForged, move.CodeDenied, "order that node %s shows: %v", source, err)
	case p.move.From != source || p.move.To != s.opts.Members.Name():
		return p, move.Deny(move.WhyForeign, move.CodeDenied, "node %s shows an order for a move from %s to %s", source, p.move.From, p.move.To)
	}
	return p, nil
}

// accepts refuses a source from which no containers are taken here.
func (s *Server) accepts(source string) error {
	return warrant.Accepts(s.opts.Members.Name(), s.opts.Engine.Kind(), s.opts.AcceptFrom, source)
}

func (s *Server) serveMigrate(w http.ResponseWriter, r *http.Request) {
	if source, _, err := pki.Node(*r.TLS); err == nil {
		defer s.opts.Members.Serving(r.Context(), source)()
	}
	p, err := s.permit(r)
	var out any
	if err == nil {
		out, err = s.call(w, r, p)
	} else {
		w.Header().Set("Connection", "close") // rather than read what comes behind it
	}
	var no *move.Denied
	if errors.As(err, &no) {
		s.opts.Refused(no.Reason)
		s.sayRefused(r, p, no.Reason, err)
	}
	var definite *move.Error
	if errors.As(err, &definite) && definite.Node == "" {
		answer := *definite
		answer.Node = s.opts.Members.Name()
		err = &answer
	}
	remote.Answer(w, out, err)
}

// sayRefused writes down that a call is refused: in one line for many of a node and a reason, in
// which what the node wrote is cut.
func (s *Server) sayRefused(r *http.Request, p permission, reason string, err error) {
	if omitted, due := s.refused.Due(p.source+" "+reason, time.Now()); due {
		s.log.Warn("migration refused", "reason", reason, "peer", r.RemoteAddr, "from", p.source, "move", wire.Clip(p.move.ID, maxSaid), "verb", wire.Clip(r.PathValue("verb"), maxSaid),
			"err", wire.Clip(err.Error(), wire.MaxText), "omitted", omitted)
	}
}

// maxSaid bounds a name in a line of the log, in bytes.
const maxSaid = 200

// call answers one that has a permission.
func (s *Server) call(w http.ResponseWriter, r *http.Request, p permission) (any, error) {
	verb := remote.Verb(r.PathValue("verb"))
	switch verb {
	case remote.Facts, remote.Lacking:
		c := move.Question{By: move.Target, Step: move.Preflight, Move: p.move.ID, Deadline: p.move.Deadline}
		c.Note(time.Now().After(p.move.Deadline), move.Late)
		if _, err := c.Take(); err != nil {
			return nil, err
		}
		if err := s.accepts(p.source); err != nil {
			return nil, err
		}
	case remote.Begin, remote.Do, remote.Receive:
		if p.grant == nil {
			return nil, move.Deny(move.WhyStranger, move.CodeDenied, "%s needs the manager's grant, and node %s shows an order", verb, p.source)
		}
	default:
		return nil, move.Deny(move.WhyNotStep, move.CodeDenied, "no such call: %.40q", verb)
	}
	if verb != remote.Do && verb != remote.Receive {
		if err := s.mayServe(r.Context(), p.move); err != nil {
			s.sayRefused(r, p, "", err)
			return nil, err
		}
	}
	switch verb {
	case remote.Facts:
		return s.opts.Engine.Facts(r.Context())
	case remote.Lacking:
		return s.lacking(w, r, p)
	case remote.Begin:
		return s.begin(w, r, p)
	case remote.Do:
		return s.take(w, r, p)
	}
	return s.receive(w, r, p)
}

// readCall reads a call of at most so many bytes; the rest of the body is the part.
func readCall(w http.ResponseWriter, r *http.Request, most int64) (remote.Call, error) {
	in, err := remote.Read(r, remote.Verb(r.PathValue("verb")), most)
	if err != nil {
		return in, move.Deny(move.WhyAltered, move.CodeDenied, "the call cannot be read: %v", err)
	}
	gate.Arrived(w)
	return in, nil
}

// readDescription reads what a container is described by.
func readDescription(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, guest.MaxDescription+1))
	if err != nil {
		return nil, err
	}
	if err := guest.Readable(text); err != nil {
		return nil, move.Deny(move.WhyAltered, move.CodeDenied, "%v", err)
	}
	gate.Arrived(w)
	return text, nil
}

// readQuestion reads the order of a pre-flight.
func (s *Server) readQuestion(w http.ResponseWriter, r *http.Request) (in remote.Call, err error) {
	text, err := readDescription(w, r)
	if err != nil {
		return in, err
	}
	done, err := s.guests.reading.Take(r.Context())
	if err != nil {
		return in, err
	}
	defer done()
	if err = json.Unmarshal(text, &in); err == nil && in.Order != nil {
		err = guest.CheckLists(*in.Order)
	}
	if err != nil {
		return in, move.Deny(move.WhyAltered, move.CodeDenied, "the call cannot be read: %v", err)
	}
	return in, nil
}

// lacking is the pre-flight.
func (s *Server) lacking(w http.ResponseWriter, r *http.Request, p permission) (any, error) {
	in, err := s.readQuestion(w, r)
	if err != nil {
		return nil, err
	}
	o := in.Order
	if o == nil || o.Move != p.move.ID || o.Container.Name != p.move.Container || o.From != p.move.From || o.To != p.move.To {
		return nil, move.Deny(move.WhyForeign, move.CodeDenied, "the manager's order is about another move")
	}
	o.Registry = s.opts.Images.Address(p.move.Registry)
	return s.opts.Engine.Lacking(s.opts.Members.WithWarrant(r.Context(), p.sealed, nil), *o)
}

// begin takes in the description of a container. The engine's own examination of it
// comes here, and once more before anything is created.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, p permission) (any, error) {
	if err := s.accepts(p.source); err != nil {
		return nil, err
	}
	text, err := readDescription(w, r)
	if err != nil {
		return nil, err
	}
	asked, err := s.guests.decode(r.Context(), text, *p.grant)
	if err != nil {
		return nil, move.Deny(move.WhyAltered, move.CodeDenied, "%v", err)
	}
	asked.Order.Registry = s.opts.Images.Address(p.grant.Registry)
	if time.Now().After(p.grant.Deadline) { // also of one that was begun: guests.begin says which
		return nil, s.guests.begin(*p.grant, text, time.Now())
	}
	ctx := s.opts.Members.WithWarrant(r.Context(), p.sealed, text)
	findings, err := s.opts.Engine.Lacking(ctx, asked.Order)
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(findings, func(f migrate.PreflightFinding) bool { return !f.Refuses })
	if no := migrate.NotAccepted(findings); no != nil {
		return nil, move.Deny(move.WhyNotAccepted, move.CodeNotAccepted, "%v", no)
	}
	if err := s.opts.Engine.Admit(ctx); err != nil {
		return nil, err
	}
	return struct{}{}, s.guests.begin(*p.grant, text, time.Now())
}

// take has the engine take a step.
func (s *Server) take(w http.ResponseWriter, r *http.Request, p permission) (any, error) {
	in, err := readCall(w, r, maxStep)
	if err != nil {
		return nil, err
	}
	if !in.Step.OfTarget() {
		return nil, move.Deny(move.WhyNotStep, move.CodeDenied, "%.40q is no step of a target", string(in.Step))
	}
	t, err := s.guests.take(r.Context(), *p.grant, in.Step, "", time.Now())
	if err != nil {
		return nil, err
	}
	o := t.order
	o.Registry, o.Login = s.opts.Images.Address(p.grant.Registry), s.opts.Images.PullLogin(p.move, o) // as the engine here names it
	var stated wire.Statement
	if in.Step == move.Pull {
		if stated, err = s.statement(r.Header.Get(remote.StatementHeader), p, migrate.PartCommit); err != nil {
			return nil, t.done(err, nil)
		}
		o.Committed = &migrate.Committed{ImageID: stated.ImageID, Digest: "sha256:" + stated.SHA256}
	}
	out, err := s.opts.Engine.Do(t.ctx, in.Step, o)
	if move.CodeOf(err) == move.CodeGone && in.Step != move.PullImage {
		return nil, errors.Join(err, t.done(nil, func(v *guest.Arrival) { v.End = move.Discarded }))
	}
	err = t.done(err, func(v *guest.Arrival) { v.Took(time.Now(), in.Step, out, o.Committed, stated) })
	if err == nil && in.Step == move.Confirm {
		s.settle(p.grant.Move)
	}
	return out, err
}

// receive has the engine take a part, whose last byte is not read before the source's
// statement behind it holds.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, p permission) (any, error) {
	in, err := readCall(w, r, maxStep)
	if err != nil {
		return nil, err
	}
	if in.Part == nil {
		return nil, move.Deny(move.WhyAltered, move.CodeDenied, "a part without a name")
	}
	part := in.Part.String()
	t, err := s.guests.take(r.Context(), *p.grant, move.Receive, part, time.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.ctx, partTimeout)
	defer cancel()
	body, over := gate.NewBody(ctx, w, r.Body, s.opts.Stall)
	stream := &stated{r: body, check: func(sum string, bytes int64) error {
		what, err := s.statement(r.Trailer.Get(remote.StatementHeader), p, part)
		if err == nil && (what.SHA256 != sum || what.Bytes != bytes) {
			err = move.Deny(move.WhyAltered, move.CodeDenied, "%s is not what its source has stated: %d bytes of %d have come", part, bytes, what.Bytes)
		}
		return err
	}}
	out, err := s.opts.Engine.Receive(ctx, *in.Part, t.order, stream)
	if err == nil {
		_, err = io.Copy(io.Discard, stream) // an engine may not read to the very end
	}
	over()
	if stream.failed != nil {
		err = stream.failed // rather than what the engine makes of it
	}
	return out, t.done(err, func(v *guest.Arrival) { v.Arrived(part, stream.sum) })
}
