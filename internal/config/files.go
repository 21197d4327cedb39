// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"weir/internal/base/safepath"
	"weir/internal/base/tlsfile"
)

// Load reads and checks a file, which only root and this process may be able to change. Its
// error is an *Error where the file could be read but has mistakes; Load returns the correct
// rest of the file beside it.
func Load(file string) (Config, error) { return load(file, safepath.Open) }

// Inspect reads and checks a file like Load, also one that other users may change, for a user who
// asks what is in it.
func Inspect(file string) (Config, error) { return load(file, os.Open) }

func load(file string, open func(string) (*os.File, error)) (Config, error) {
	f, err := open(file)
	var text []byte
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(f)
	}
	var refused *safepath.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Config{}, &FileError{"configuration " + file + " does not exist; write one, or name the link by --link and --egress", err}
	case errors.As(err, &refused):
		return Config{}, &FileError{"configuration " + file + ": " + refused.Error(), err}
	case err != nil:
		return Config{}, &FileError{"configuration: " + err.Error() + "; name a file that can be read", err}
	}
	return Parse(file, text)
}

// NamedFile is a file or a folder that a configuration names, or the folder of state.
type NamedFile struct {
	Field string // of the configuration, such as tell.command.run
	Path  string
	state bool // the folder of state, which is made, or shut, before it is used
}

// check returns why the process refuses it.
func (f NamedFile) check() error {
	if f.state {
		return safepath.CheckFolder(f.Path)
	}
	return safepath.Check(f.Path)
}

// Files returns what the agent reads, runs and writes by the configuration, but the files of
// prefixes, which are read with it.
func (c Config) Files() []NamedFile {
	list := append(filesOf("metrics.tls", c.Metrics.TLS), filesOf("web.tls", c.Web.TLS)...)
	list = append(append(list, filesOf("sdn.tls", c.SDN.TLS)...), c.Cluster.Kafka.files("cluster.kafka")...)
	list = append(list, NamedFile{Field: "tell.webhook.ca", Path: c.Tell.Webhook.CA}, NamedFile{Field: "tell.webhook.secret_file", Path: c.Tell.Webhook.SecretFile},
		NamedFile{Field: "cluster.token_file", Path: c.Cluster.TokenFile}, NamedFile{"state_dir", c.StateDir, true})
	if len(c.Tell.Command.Run) > 0 {
		list = append(list, NamedFile{Field: "tell.command.run", Path: c.Tell.Command.Run[0]})
	}
	return list
}

// Files returns what the manager reads and writes by its configuration.
func (m Manager) Files() []NamedFile {
	return append(append(filesOf("manager.web.tls", m.Web.TLS), m.Kafka.files("manager.kafka")...), NamedFile{"manager.state_dir", m.StateDir, true})
}

func (k Kafka) files(field string) []NamedFile {
	return append(filesOf(field+".tls", k.Files), NamedFile{Field: field + ".sasl.password_file", Path: k.PasswordFile})
}

func filesOf(field string, f tlsfile.Files) []NamedFile {
	return []NamedFile{{Field: field + ".ca", Path: f.CA}, {Field: field + ".cert", Path: f.Cert}, {Field: field + ".key", Path: f.Key}}
}

// CheckFiles refuses files and folders that others than root and this process may change. What
// is not there is not judged.
func CheckFiles(list []NamedFile) error {
	for _, f := range list {
		var refused *safepath.Error
		if err := f.check(); errors.As(err, &refused) {
			return &FileError{fmt.Sprintf("%s: %s: %v", f.Field, f.Path, refused), err}
		}
	}
	return nil
}

// UnsafeFile is a file or folder that an agent of root refuses.
type UnsafeFile struct {
	NamedFile
	Why *safepath.Error
}

// Fault says what is wrong.
func (r UnsafeFile) Fault() string {
	return fmt.Sprintf("%s: an agent of root refuses %s: %s", r.Field, r.Path, r.Why.Fault())
}

// Refused returns what an agent of root refuses of the file itself and of what it names.
func (c Config) Refused() []UnsafeFile {
	var list []UnsafeFile
	for _, f := range append([]NamedFile{{Field: "configuration", Path: c.Path}}, c.Files()...) {
		if why := safepath.Refusal(f.Path); why != nil {
			list = append(list, UnsafeFile{f, why})
		}
	}
	return list
}
