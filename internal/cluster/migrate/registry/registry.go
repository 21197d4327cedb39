// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	"github.com/sirupsen/logrus"

	"weir/internal/base/safepath"
)

// Registry serves a folder.
type Registry struct {
	dir      string
	app      *handlers.App
	driver   driver.StorageDriver
	images   distribution.Namespace // the same folder, for what the HTTP side does not offer
	usage    *usage
	opened   time.Time
	received atomic.Int64
	sent     atomic.Int64

	tagging sync.Mutex // held while a tag is set or taken away
}

// Open opens the folder of a registry and makes it if it is missing.
func Open(dir string, q Quota) (*Registry, error) {
	logs()
	if err := safepath.Folder(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Registry{dir: dir, opened: time.Now(), driver: filesystem.New(filesystem.DriverParameters{RootDirectory: dir, MaxThreads: 100})}
	if err := dropUploads(dir); err != nil {
		return nil, err
	}
	var err error
	if r.usage, err = openUsage(dir, q); err != nil {
		return nil, fmt.Errorf("registry in %s: %w", dir, err)
	}
	if r.images, err = storage.NewRegistry(context.Background(), r.driver, storage.EnableDelete); err != nil {
		return nil, fmt.Errorf("registry in %s: %w", dir, err)
	}
	config := &configuration.Configuration{Storage: configuration.Storage{
		"filesystem": configuration.Parameters{"rootdirectory": dir},
		"delete":     configuration.Parameters{"enabled": true},
	}}
	config.HTTP.Secret = rand.Text() // signs the state of uploads; one that is cut off by a restart begins anew
	config.Catalog.MaxEntries = 1000
	r.app = handlers.NewApp(context.Background(), config)
	return r, nil
}

// dropUploads removes the parts of uploads that a former process received: no client
// can go on with them.
func dropUploads(dir string) error {
	for _, depth := range []string{"*", "*/*"} {
		list, err := filepath.Glob(filepath.Join(dir, "docker/registry/v2/repositories", depth, "_uploads"))
		if err != nil {
			return err
		}
		for _, uploads := range list {
			if err := os.RemoveAll(uploads); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends what goes on in the background.
func (r *Registry) Close() error { return errors.Join(r.app.Shutdown(), r.usage.save()) }

// Traffic returns how many bytes of layers and configurations have come in and gone out.
func (r *Registry) Traffic() (received, sent int64) { return r.received.Load(), r.sent.Load() }

// Usage returns how much the registry holds now.
func (r *Registry) Usage() Usage { return r.usage.now() }

// size returns a number of bytes for people, e.g. "20 GB".
func size(bytes int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if bytes >= unit.bytes {
			return fmt.Sprintf("%.3g %s", float64(bytes)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// logs sends distribution's log to slog, errors only. Distribution logs by logrus's
// global logger, which no other package here uses.
var logs = sync.OnceFunc(func() {
	logrus.SetLevel(logrus.ErrorLevel)
	logrus.SetOutput(toSlog{})
	logrus.SetFormatter(&logrus.TextFormatter{DisableColors: true, DisableTimestamp: true})
})

type toSlog struct{}

func (toSlog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "http.response.status=404") { // an engine has asked whether something is there
		slog.Debug("registry", "says", text)
	} else {
		slog.Warn("registry", "says", text)
	}
	return len(line), nil
}
