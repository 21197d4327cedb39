// SPDX-License-Identifier: Apache-2.0

// Package statedir is the folder in which a manager keeps its state:
//
//	manager.db        the database, in buckets of records
//	ca.key, ca.crt    the authority, by package pki
//	own/              the manager's certificate and key, by package pki
//	bus/, registry/   what the bus and the image registry keep
//	audit*            the audit log
//
// The folder belongs to the user that the manager runs as (Take, CheckOwner). A
// snapshot of it is one file (Pack), from which Restore makes such a folder again; all of
// a snapshot is checked before it takes the place of anything.
//
// The database is written in changes: each is made whole or not at all, and is on the disk
// when Write returns. For example:
//
//	const tokens statedir.Bucket[token] = "tokens"
//	db, err := statedir.Open(dir, string(tokens))
//	if err != nil { ... }
//	var c statedir.Transaction
//	tokens.Put(&c, "ab12", &token{ID: "ab12"})
//	tokens.Delete(&c, "cd34")
//	err = db.Write(&c)
//
// What it does not do: know what the records mean. Whether a restored folder can be a
// manager's is for the caller of Restore to prove.
package statedir

// Default is the folder where systemd starts the manager.
const Default = "/var/lib/weir/manager"
