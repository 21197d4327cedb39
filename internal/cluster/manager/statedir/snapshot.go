// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"weir/internal/core/refusal"
)

// A snapshot is the state of a manager in one file:
//
//	weir-manager-snapshot 1
//	<SHA-256 of all that follows, in hexadecimal digits>
//	tar, packed by gzip: manifest.json, manager.db, ca.key, ca.crt, own/...
//
// It holds all but what the bus and the image registry keep. Messages of the bus are
// asked for again (the manager's reminders, and the nodes' journals); images are pushed again when
// a move needs them; the audit log has its own files.
const (
	snapshotMagic  = "weir-manager-snapshot "
	snapshotFormat = "1"
	// maxSnapshot bounds what a snapshot unpacks to, in bytes.
	maxSnapshot = 1 << 30
)

// SnapshotManifest is the first file of a snapshot, for people and for Restore.
type SnapshotManifest struct {
	Created   time.Time `json:"created"`
	Weir      string    `json:"weir"`
	Authority string    `json:"authority"` // SHA-256 of its certificate
	Nodes     []string  `json:"nodes"`
	Moves     int       `json:"moves"` // that have not ended
}

const manifestFile = "manifest.json"

// inSnapshot reports whether a file or folder of the manager's folder belongs into a
// snapshot. The database is copied by a transaction instead.
func inSnapshot(name string) bool {
	switch name {
	case "bus", "registry", databaseFile:
		return false
	}
	return !strings.HasPrefix(name, "audit") && !strings.HasSuffix(name, ".new")
}

// Pack returns a snapshot of the folder, whose database is open. The caller makes no change
// meanwhile, so that the files and the database are of one moment.
func Pack(dir string, db *DB, about SnapshotManifest) ([]byte, error) {
	var body bytes.Buffer
	packed := gzip.NewWriter(&body)
	out := tar.NewWriter(packed)
	add := func(name string, text []byte) error {
		err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: about.Created, Typeflag: tar.TypeReg})
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	text, err := json.MarshalIndent(about, "", " ")
	if err != nil {
		return nil, err
	}
	if err := add(manifestFile, append(text, '\n')); err != nil {
		return nil, err
	}
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		h := &tar.Header{Name: databaseFile, Mode: 0o600, Size: tx.Size(), ModTime: about.Created, Typeflag: tar.TypeReg}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err := tx.WriteTo(out)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := addFiles(dir, add); err != nil {
		return nil, err
	}
	if err := errors.Join(out.Close(), packed.Close()); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body.Bytes())
	head := snapshotMagic + snapshotFormat + "\n" + hex.EncodeToString(sum[:]) + "\n"
	return append([]byte(head), body.Bytes()...), nil
}

// addFiles adds the files beside the database.
func addFiles(dir string, add func(name string, text []byte) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".":
			return nil
		case !inSnapshot(path):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := root.ReadFile(path)
		if err != nil {
			return err
		}
		return add(path, text)
	})
}

// snapshot is a snapshot that was read and found whole.
type snapshot struct {
	SnapshotManifest
	files map[string][]byte
}

// readSnapshot checks a snapshot and unpacks it into memory. name is for messages.
func readSnapshot(in io.Reader, name string) (snapshot, error) {
	bad := func(format string, args ...any) (snapshot, error) {
		return snapshot{}, &refusal.Error{Kind: refusal.Invalid, Field: "snapshot", Value: name, Msg: fmt.Sprintf(format, args...),
			Remedy: "give a file that weir manager snapshot has written"}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSnapshot+1))
	if err != nil {
		return snapshot{}, err
	}
	format, rest, _ := bytes.Cut(text, []byte("\n"))
	sum, body, whole := bytes.Cut(rest, []byte("\n"))
	version, ours := strings.CutPrefix(string(format), snapshotMagic)
	got := sha256.Sum256(body)
	switch {
	case !ours:
		return bad("is no snapshot of a manager")
	case version != snapshotFormat:
		return bad("has format %.20q, and this Weir reads %s", version, snapshotFormat)
	case !whole || string(sum) != hex.EncodeToString(got[:]):
		return bad("is damaged or not whole: its checksum does not match")
	}
	s := snapshot{files: map[string][]byte{}}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return bad("cannot be unpacked: %v", err)
	}
	files := tar.NewReader(io.LimitReader(packed, maxSnapshot))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bad("cannot be unpacked: %v", err)
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || filepath.Clean(h.Name) != h.Name || s.files[h.Name] != nil {
			return bad("holds %.80q, which has no place in one", h.Name)
		}
		if s.files[h.Name], err = io.ReadAll(files); err != nil {
			return bad("cannot be unpacked: %v", err)
		}
	}
	if err := json.Unmarshal(s.files[manifestFile], &s.SnapshotManifest); err != nil || s.files[databaseFile] == nil {
		return bad("lacks its manifest or the database")
	}
	delete(s.files, manifestFile)
	return s, nil
}
