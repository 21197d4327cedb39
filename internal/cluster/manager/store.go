// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// The buckets; each value is JSON.
const (
	bucketMeta         = "meta"
	bucketMembers      = "members"
	bucketTokens       = "tokens"
	bucketMoves        = "moves"
	bucketPlaces       = "places"
	bucketApplies      = "applies"
	bucketOrders       = "orders"
	bucketTrust        = "trust"
	bucketCertificates = "certificates"
)

var buckets = []string{bucketMeta, bucketMembers, bucketTokens, bucketMoves, bucketPlaces, bucketApplies, bucketOrders, bucketTrust, bucketCertificates}

// metaSequence is the key in bucketMeta of the last order's sequence.
const metaSequence = "sequence"

// storeVersion is the version of the form of the database.
const storeVersion = 1

// databaseFile is the database in the manager's folder.
const databaseFile = "manager.db"

// store is the database.
type store struct{ db *bbolt.DB }

// openStore opens the database in dir, which is made if it is missing.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, databaseFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use: another manager runs here; stop it first (systemctl stop weir-manager) or choose another --state-dir", path)
	}
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	s := &store{db}
	if err := s.prepare(); err != nil {
		db.Close()
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	return s, nil
}

func (s *store) prepare() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte(bucketMeta))
		version := meta.Get([]byte("version"))
		if version == nil {
			return meta.Put([]byte("version"), []byte(fmt.Sprint(storeVersion)))
		}
		if string(version) != fmt.Sprint(storeVersion) {
			return fmt.Errorf("version %s, this manager writes %d", version, storeVersion)
		}
		return nil
	})
}

func (s *store) close() error { return s.db.Close() }

// change is one transaction: values to put, nil to delete, by bucket and key.
type change struct {
	values map[string]map[string]any
	orders []order // among the values: what goes to the bus once they are written
}

func (c *change) put(bucket, key string, value any) {
	if c.values == nil {
		c.values = map[string]map[string]any{}
	}
	if c.values[bucket] == nil {
		c.values[bucket] = map[string]any{}
	}
	c.values[bucket][key] = value
}

// write makes a change, to the disk, whole or not at all.
func (s *store) write(c *change) error {
	if len(c.values) == 0 {
		return nil
	}
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for bucket, values := range c.values {
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

// sequence returns the sequence number of the last order that was sent, 0 if there
// was none.
func (s *store) sequence() (seq uint64, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		text := tx.Bucket([]byte(bucketMeta)).Get([]byte(metaSequence))
		if text == nil {
			return nil
		}
		return json.Unmarshal(text, &seq)
	})
	return seq, err
}

// read collects a bucket.
func read[T any](s *store, bucket string) (map[string]*T, error) {
	all := map[string]*T{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(key, text []byte) error {
			v := new(T)
			if err := json.Unmarshal(text, v); err != nil {
				return fmt.Errorf("%s %s: %w", bucket, key, err)
			}
			all[string(key)] = v
			return nil
		})
	})
	return all, err
}
