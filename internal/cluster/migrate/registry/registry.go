// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
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
	"github.com/distribution/reference"
	"github.com/sirupsen/logrus"
)

// Registry serves a folder.
type Registry struct {
	dir      string
	app      *handlers.App
	driver   driver.StorageDriver
	images   distribution.Namespace // the same folder, for Collect
	received atomic.Int64
	sent     atomic.Int64

	// changing is held by every request that writes, shared, and by Collect alone.
	changing sync.RWMutex
	changed  atomic.Int64 // when the last of them began, Unix ns
}

// Open opens the folder of a registry and makes it if it is missing.
func Open(dir string) (*Registry, error) {
	logs()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &Registry{dir: dir, driver: filesystem.New(filesystem.DriverParameters{RootDirectory: dir, MaxThreads: 100})}
	var err error
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

// Close ends what goes on in the background.
func (r *Registry) Close() error { return r.app.Shutdown() }

// Traffic is how many bytes of layers and configurations have come in and gone out.
func (r *Registry) Traffic() (received, sent int64) { return r.received.Load(), r.sent.Load() }

// ServeHTTP implements http.Handler: the OCI distribution specification.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		r.changing.RLock()
		defer r.changing.RUnlock()
		r.changed.Store(time.Now().UnixNano())
	}
	if strings.Contains(q.URL.Path, "/blobs/") {
		q.Body = &body{q.Body, &r.received}
		w = &answer{w, &r.sent}
	}
	r.app.ServeHTTP(w, q)
}

// Collect removes what no tag leads to, and returns how many bytes that freed. It does
// nothing if something was pushed within the last `age`: layers come before the
// manifest that names them.
func (r *Registry) Collect(ctx context.Context, age time.Duration) (freed int64, err error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if time.Since(time.Unix(0, r.changed.Load())) < age {
		return 0, nil
	}
	before, err := r.size()
	if err != nil || before == 0 {
		return 0, err
	}
	if err := storage.MarkAndSweep(ctx, r.driver, r.images, storage.GCOpts{RemoveUntagged: true, Quiet: true}); err != nil {
		return 0, fmt.Errorf("collect what is not needed in %s: %w", r.dir, err)
	}
	after, err := r.size()
	return before - after, err
}

// Expire takes the tags from images of a repository that were pushed longer ago than
// age; Collect removes what that leaves.
func (r *Registry) Expire(ctx context.Context, repository string, age time.Duration) error {
	name, err := reference.WithName(repository)
	if err != nil {
		return err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	repo, err := r.images.Repository(ctx, name)
	if err != nil {
		return err
	}
	tags := repo.Tags(ctx)
	list, err := tags.All(ctx)
	var unknown distribution.ErrRepositoryUnknown
	if errors.As(err, &unknown) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("images of %s: %w", repository, err)
	}
	for _, tag := range list {
		link, err := r.driver.Stat(ctx, "/docker/registry/v2/repositories/"+repository+"/_manifests/tags/"+tag+"/current/link")
		if err != nil {
			return err
		}
		if time.Since(link.ModTime()) > age {
			if err := tags.Untag(ctx, tag); err != nil {
				return fmt.Errorf("image %s:%s: %w", repository, tag, err)
			}
		}
	}
	return nil
}

// size of the folder's files in bytes.
func (r *Registry) size() (sum int64, err error) {
	err = filepath.WalkDir(r.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}

// body counts what comes in.
type body struct {
	io.ReadCloser
	count *atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	return n, err
}

// answer counts what goes out.
type answer struct {
	http.ResponseWriter
	count *atomic.Int64
}

func (a *answer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.count.Add(int64(n))
	return n, err
}

// ReadFrom keeps the kernel's own copying from file to socket.
func (a *answer) ReadFrom(from io.Reader) (int64, error) {
	n, err := io.Copy(a.ResponseWriter, from)
	a.count.Add(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// logs sends what distribution has to say to slog, errors only. It logs by logrus's
// logger for everybody, which nothing else here uses.
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
