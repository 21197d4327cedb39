// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// absence tells a host that has no container engine from one whose engine is away. The zero
// value tells nothing: every engine that does not answer is away.
type absence struct {
	socket    string // a path; "" = not known
	asked     bool   // the configuration names an engine
	installed func() bool
}

// Expected makes an engine that is not there a loss: the configuration asks for one.
func (d *Docker) Expected() { d.absence.asked = true }

// absenceOf returns the absence of the engine at host, such as "unix:///var/run/docker.sock".
func absenceOf(host string) absence {
	socket, _ := strings.CutPrefix(host, "unix://")
	return absence{socket: socket, installed: func() bool {
		_, err := exec.LookPath("dockerd")
		return err == nil
	}}
}

// noEngine returns why no engine is on this host, "" if one is, or may be.
func (a absence) noEngine() string {
	if a.socket == "" || a.asked {
		return ""
	}
	if _, err := os.Stat(a.socket); !errors.Is(err, fs.ErrNotExist) || a.installed() {
		return ""
	}
	return "no container engine on this host: " + a.socket + " is not there, and dockerd is not installed"
}
