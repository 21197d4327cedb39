// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/core/event"
)

// portAgain is the pause before an address is tried again that could not be listened on.
const portAgain = time.Second

// TCPAddresses are the TCP addresses of one server. An address that the host does not have yet,
// that another program uses, or whose certificate cannot be read is tried again until it can be
// served: none of them is a reason not to steer.
type TCPAddresses struct {
	what    string // the server, for people
	files   tlsfile.Files
	log     *slog.Logger
	between func(net.Listener) net.Listener

	mu   sync.Mutex
	list []*port
}

// port is one address. A listener that ends is nil from then on.
type port struct {
	address  string
	listener net.Listener
	wrong    error // why it is not served; nil = it is, or was not tried yet
}

// NewPorts makes the ports of the server called what. between is that of ListenTCP. Nothing is
// opened yet.
func NewPorts(what string, addresses []string, files tlsfile.Files, log *slog.Logger, between func(net.Listener) net.Listener) *TCPAddresses {
	p := &TCPAddresses{what: what, files: files, log: log, between: between}
	for _, address := range addresses {
		p.list = append(p.list, &port{address: address})
	}
	return p
}

// Open opens what can be opened without asking a name server, so that it takes no time.
func (p *TCPAddresses) Open() {
	for _, one := range p.list {
		if host, _, err := net.SplitHostPort(one.address); err == nil && (host == "" || host == "localhost" || net.ParseIP(host) != nil) {
			p.open(one)
		}
	}
}

// open opens a port that is not, and reports whether it is open.
func (p *TCPAddresses) open(one *port) net.Listener {
	p.mu.Lock()
	ln := one.listener
	p.mu.Unlock()
	if ln != nil {
		return ln
	}
	ln, err := ListenTCP(one.address, p.files, p.log, p.between)
	p.note(one, ln, err)
	return ln
}

// note keeps how a port stands, and logs the first failure of several.
func (p *TCPAddresses) note(one *port, ln net.Listener, err error) {
	p.mu.Lock()
	before := one.wrong
	one.listener, one.wrong = ln, err
	p.mu.Unlock()
	switch {
	case err != nil && before == nil:
		p.log.Warn("an address is not served, trying again", "what", p.what, "address", one.address, "err", err)
	case err == nil && ln != nil:
		p.log.Info("listening on TCP", "what", p.what, "address", ln.Addr().String(), "tls", p.files.Given(), "client_ca", p.files.CA)
	}
}

// Serve serves each address by srv as soon as it can be, until ctx ends.
func (p *TCPAddresses) Serve(ctx context.Context, srv *http.Server) {
	var serving sync.WaitGroup
	for _, one := range p.list {
		serving.Go(func() { p.serve(ctx, srv, one) })
	}
	serving.Wait()
}

func (p *TCPAddresses) serve(ctx context.Context, srv *http.Server, one *port) {
	for ctx.Err() == nil {
		if ln := p.open(one); ln != nil {
			err := srv.Serve(ln)
			if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
				return
			}
			p.note(one, nil, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(portAgain):
		}
	}
}

// Addr returns the first address that is served, "" if none is.
func (p *TCPAddresses) Addr() string {
	_, served := p.First()
	return served
}

// First returns the first address that is served: as it was asked for, and as it is.
func (p *TCPAddresses) First() (asked, served string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.list {
		if one.listener != nil {
			return one.address, one.listener.Addr().String()
		}
	}
	return "", ""
}

// Wrong returns why the first address is not served that is not, nil if all are.
func (p *TCPAddresses) Wrong() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first error
	for _, one := range p.list {
		first = cmp.Or(first, one.wrong)
	}
	return first
}

// Look adds the addresses that are not served to what problems and events follow from.
func (p *TCPAddresses) Look(s *event.Sight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.list {
		if one.wrong != nil {
			s.Report(event.NotServed, event.Condition{Subject: event.Subject{Type: event.Address, Name: one.address},
				Text: p.what + " is not served here: " + one.wrong.Error(), Remedy: "the agent tries again every second; ip address shows the addresses of this host, ss -ltnp who uses a port"})
		}
	}
}

// Close closes what is open, of a server that does not serve.
func (p *TCPAddresses) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all error
	for _, one := range p.list {
		if one.listener != nil {
			all = errors.Join(all, one.listener.Close())
		}
	}
	return all
}
