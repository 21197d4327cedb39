// SPDX-License-Identifier: Apache-2.0

// Package localtime follows the host's time zone while a program runs. Go reads it once, at the
// start, so that a window of 08:00 to 18:00 would be that of the former zone until the next one.
//
// Example: timedatectl set-timezone Europe/Berlin makes /etc/localtime a link to another file,
// and the next Wall returns times of Berlin.
//
// A zone that TZ names stays: a program's environment does not change.
package localtime

import (
	"io/fs"
	"os"
	"time"

	"weir/internal/base/safepath"
)

// Zone is the host's time zone. It belongs to one goroutine at a time.
type Zone struct {
	path string
	seen fs.FileInfo // of the file, nil = there was none
	zone *time.Location
}

// New returns the zone that the program was started with.
func New() *Zone { return at("/etc/localtime", time.Local) }

// at returns a zone that a file says, which now says zone.
func at(path string, zone *time.Location) *Zone {
	if _, fixed := os.LookupEnv("TZ"); fixed {
		path = ""
	}
	z := &Zone{path: path, zone: zone}
	z.seen, _ = os.Stat(path)
	return z
}

// Wall returns what the host's clock shows at a moment. A file that cannot be read, or is half
// written, leaves the zone as it was.
func (z *Zone) Wall(now time.Time) time.Time {
	if z.path != "" {
		z.follow()
	}
	return now.Round(0).In(z.zone)
}

func (z *Zone) follow() {
	is, err := os.Stat(z.path)
	if err != nil || z.seen != nil && os.SameFile(is, z.seen) && is.ModTime().Equal(z.seen.ModTime()) && is.Size() == z.seen.Size() {
		return
	}
	text, err := safepath.ReadFile(z.path)
	if err != nil {
		return
	}
	if zone, err := time.LoadLocationFromTZData("Local", text); err == nil {
		z.zone, z.seen = zone, is
	}
}
