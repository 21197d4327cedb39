// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"weir/internal/base/safepath"
)

// Meta is the bucket of numbers that there are one of in a database.
const Meta Bucket[uint64] = "meta"

// The version of the form of the database, and its key in Meta.
const (
	version    = 1
	versionKey = "version"
)

// databaseFile is the database in the manager's folder.
const databaseFile = "manager.db"

// DB is the database. Its methods may be called from any goroutine.
type DB struct{ bolt *bbolt.DB }

// Open opens the database in dir, which is made if it is missing, as are the buckets.
func Open(dir string, buckets ...string) (*DB, error) {
	if err := safepath.Folder(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, databaseFile)
	bolt, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType, OpenFile: safepath.OpenFile})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, inUse(path)
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	db := &DB{bolt}
	if err := db.prepare(buckets); err != nil {
		bolt.Close()
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	return db, nil
}

func inUse(path string) error {
	return fmt.Errorf("%s is in use: another manager runs here; stop it first (systemctl stop weir-manager) or choose another --state-dir", path)
}

func (db *DB) prepare(buckets []string) error {
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		for _, name := range append([]string{string(Meta)}, buckets...) {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(Meta))
		switch found := meta.Get([]byte(versionKey)); {
		case found == nil:
			return meta.Put([]byte(versionKey), fmt.Append(nil, version))
		case string(found) != fmt.Sprint(version):
			return fmt.Errorf("version %s, this manager writes %d", found, version)
		}
		return nil
	})
}

// Close closes the database.
func (db *DB) Close() error { return db.bolt.Close() }

// NoSync has transactions written without waiting for the disk, for tests that write much.
func (db *DB) NoSync() { db.bolt.NoSync = true }

// Transaction is what is written at once: values to put, nil to delete, by bucket and key. The zero
// value changes nothing.
type Transaction struct{ values map[string]map[string]any }

func (t *Transaction) set(bucket, key string, value any) {
	if t.values == nil {
		t.values = map[string]map[string]any{}
	}
	if t.values[bucket] == nil {
		t.values[bucket] = map[string]any{}
	}
	t.values[bucket][key] = value
}

// Write carries a transaction out, to the disk, whole or not at all.
func (db *DB) Write(t *Transaction) error {
	if len(t.values) == 0 {
		return nil
	}
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		for bucket, values := range t.values {
			b := tx.Bucket([]byte(bucket))
			for key, value := range values {
				if value == nil {
					if err := b.Delete([]byte(key)); err != nil {
						return err
					}
					continue
				}
				text, err := json.Marshal(value)
				if err == nil {
					err = b.Put([]byte(key), text)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("manager's database: %w", err)
	}
	return nil
}

// Bucket is the part of the database with this name. Its records are kept as JSON.
type Bucket[T any] string

// Put has a record written with the transaction.
func (b Bucket[T]) Put(t *Transaction, key string, record *T) { t.set(string(b), key, record) }

// Delete has a record removed with the transaction.
func (b Bucket[T]) Delete(t *Transaction, key string) { t.set(string(b), key, nil) }

// In visits the records that a transaction puts into the bucket.
func (b Bucket[T]) In(t *Transaction) iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for key, value := range t.values[string(b)] {
			if record, ok := value.(*T); ok && !yield(key, record) {
				return
			}
		}
	}
}

// Get returns one record, nil if there is none.
func (b Bucket[T]) Get(db *DB, key string) (record *T, err error) {
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		text := tx.Bucket([]byte(b)).Get([]byte(key))
		if text == nil {
			return nil
		}
		record = new(T)
		return b.decode(key, text, record)
	})
	return record, err
}

// All returns the records by their keys.
func (b Bucket[T]) All(db *DB) (map[string]*T, error) {
	all := map[string]*T{}
	err := db.bolt.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(b)).ForEach(func(key, text []byte) error {
			record := new(T)
			all[string(key)] = record
			return b.decode(string(key), text, record)
		})
	})
	return all, err
}

func (b Bucket[T]) decode(key string, text []byte, record *T) error {
	if err := json.Unmarshal(text, record); err != nil {
		return fmt.Errorf("%s %s: %w", b, key, err)
	}
	return nil
}
