// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"strings"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/host/agent"
	"weir/internal/host/doctor"
)

// certificates knows how long those of a configuration are valid. A file is read when it has
// changed, so that it can be asked every second.
type certificates struct{ read map[string]certificate }

// certificate is what a file held at a time of change.
type certificate struct {
	changed time.Time
	size    int64
	life    tlsfile.Life
	wrong   error
}

// look adds the certificates that have ended, end soon or cannot be read.
func (c *certificates) look(s *event.Sight, files []config.NamedFile) {
	seen := map[string]bool{}
	for _, f := range files {
		authorities := strings.HasSuffix(f.Field, ".ca")
		if f.Path == "" || seen[f.Path] || !authorities && !strings.HasSuffix(f.Field, ".cert") {
			continue
		}
		seen[f.Path] = true
		found := c.of(f.Path, authorities)
		text := found.life.Trouble(s.At)
		if found.wrong != nil {
			text = "cannot be used: " + found.wrong.Error()
		}
		if text != "" {
			s.Report(event.BadCertificate, event.Condition{Subject: event.Subject{Type: event.Certificate, Name: f.Path},
				Text: text + " (" + f.Field + ")", Remedy: "put a new one there; it is used from the next connection on"})
		}
	}
}

func (c *certificates) of(path string, authorities bool) certificate {
	info, err := os.Stat(path)
	if err != nil {
		delete(c.read, path)
		return certificate{wrong: err}
	}
	known, ok := c.read[path]
	if !ok || !known.changed.Equal(info.ModTime()) || known.size != info.Size() {
		known = certificate{changed: info.ModTime(), size: info.Size()}
		known.life, known.wrong = tlsfile.ReadLife(path, authorities)
		c.read[path] = known
	}
	return known
}

// observe has an agent look at what of the host belongs to a configuration beside links and
// workloads: certificates, and the clock of a node of a cluster.
func observe(ag *agent.Agent, c config.Config) {
	kept := certificates{map[string]certificate{}}
	ag.Observe(func(s *event.Sight) { kept.look(s, c.Files()) })
	if c.Cluster.Manager != "" {
		ag.Observe(func(s *event.Sight) {
			if seen, remedy := doctor.ClockTrouble(); seen != "" {
				s.Report(event.ClockWrong, event.Condition{Subject: event.Subject{Type: event.Clock, Name: "clock"}, Text: seen, Remedy: remedy})
			}
		})
	}
}
