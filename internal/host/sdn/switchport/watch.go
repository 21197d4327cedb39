// SPDX-License-Identifier: Apache-2.0

package switchport

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"weir/internal/base/retry"
	"weir/internal/base/tlsfile"
	"weir/internal/core/event"
	"weir/internal/core/workload"
	"weir/internal/host/sdn/ovsdb"
)

// Report is the state of all ports that are meant for Weir, as the database has it.
type Report struct {
	Ports []Port  // by bridge and name
	Wrong []Wrong // those that cannot be links as their rows are
}

// Wrong is a port that is meant for Weir and cannot be a link.
type Wrong struct {
	Bridge, Name string
	Why          string // with the remedy
}

// Watch follows a database.
type Watch struct {
	Address string        // "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT"
	TLS     tlsfile.Files // for ssl
	Log     *slog.Logger

	mu      sync.Mutex
	problem error   // why there is no connection
	wrong   []Wrong // of the last report
}

const (
	settle    = 50 * time.Millisecond // after a change: a tool may write several transactions
	dialLimit = 5 * time.Second       // for a connection and its first answer
	alive     = 10 * time.Second      // how often the database is asked for a sign of life

	// Between two tries to connect.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

var (
	errLost   = errors.New("the connection is lost")
	errNotYet = errors.New("not connected yet")
)

// Status returns workload.SourceOK, or workload.SourceUnavailable with the reason for which there
// is no connection.
func (w *Watch) Status() (state workload.SourceState, note string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem != nil {
		return workload.SourceUnavailable, w.problem.Error() + "; its ports stay as they are"
	}
	return workload.SourceOK, w.Address
}

// Look adds the ports that cannot be links to what the agent sees.
func (w *Watch) Look(s *event.Sight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, port := range w.wrong {
		s.Report(event.BadSwitchPort, event.Condition{Subject: event.Subject{Type: event.SwitchPort, Name: port.Bridge + "/" + port.Name},
			Text: "is no link: " + port.Why, Remedy: "weir sdn show has its rows"})
	}
}

func (w *Watch) found(r Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = r.Wrong
}

func (w *Watch) now(problem error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problem = problem
}

// Run calls report with the ports there are, and again after each change, until
// ctx ends. It reports nothing while there is no connection: the ports stay as
// they were. Then it tries again, with pauses that double up to 10 s.
func (w *Watch) Run(ctx context.Context, report func(Report)) error {
	w.now(errNotYet)
	var last *Report
	complaint := ""
	for pauses := retry.New(firstPause, longestPause); ; {
		err := w.follow(ctx, func(r Report) {
			if complaint != "" {
				w.Log.Info("connected with the switch's database again", "ovsdb", w.Address)
				complaint = ""
			}
			pauses.Reset()
			w.now(nil)
			if last == nil || !reflect.DeepEqual(*last, r) {
				last = &r
				w.found(r)
				report(r)
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		w.now(err)
		if err.Error() != complaint {
			complaint = err.Error()
			w.Log.Warn("no connection with the switch's database; its ports stay as they are", "ovsdb", w.Address, "err", err)
		}
		if !pauses.Wait(ctx) {
			return nil
		}
	}
}

// follow reports until the connection is lost.
func (w *Watch) follow(ctx context.Context, report func(Report)) error {
	dialing, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	c, err := ovsdb.Dial(dialing, w.Address, w.TLS)
	if err != nil {
		return err
	}
	defer c.Close()
	ticker := time.NewTicker(alive)
	defer ticker.Stop()
	for {
		snapshot, err := c.Snapshot()
		if err != nil {
			return err
		}
		report(Read(snapshot))
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-c.Lost():
				return errLost
			case <-ticker.C:
				if err := ask(ctx, c); err != nil {
					return err
				}
			case <-c.Changed():
				time.Sleep(settle)
				waiting = false
			}
		}
	}
}

func ask(ctx context.Context, c *ovsdb.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	return c.Alive(ctx)
}

// Read returns the ports that are meant for Weir.
func Read(s ovsdb.Content) Report {
	var r Report
	for _, b := range s.Bridges {
		for _, p := range b.Ports {
			if !IsPort(p) {
				continue
			}
			port, err := decode(p)
			if err != nil {
				r.Wrong = append(r.Wrong, Wrong{p.Bridge, p.Name, err.Error()})
				continue
			}
			r.Ports = append(r.Ports, port)
		}
	}
	return r
}
