// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/move"
)

// Send writes a part of a frozen container.
func (e *Engine) Send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	var size pack.StreamSize
	var err error
	switch p.Kind {
	case migrate.PartArchive:
		size, err = sendFile(w, e.archive(o.Move))
	case migrate.PartMemory:
		size, err = sendFile(w, e.memory(o.Move))
	case migrate.PartImage:
		file := filepath.Join(e.dir, o.Move+".image")
		defer os.Remove(file)
		if _, err = e.run(ctx, "save", "-o", file, "--", o.Container.ImageID); err == nil {
			size, err = sendFile(w, file)
		}
	default:
		err = &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("a container of podman has no part %s", p)}
	}
	return migrate.StepOutcome{Bytes: size.Packed, Raw: size.Raw}, err
}

func sendFile(w io.Writer, file string) (pack.StreamSize, error) {
	f, err := os.Open(file)
	if err != nil {
		return pack.StreamSize{}, err
	}
	size, err := pack.Copy(w, f)
	return size, errors.Join(err, f.Close())
}

// mayCome refuses an order whose container has the id of one that is here: podman keeps ids, and
// the order's is another node's word. What is done to a copy would be done to that one.
func (e *Engine) mayCome(ctx context.Context, o migrate.MoveSpec) error {
	if !idPattern.MatchString(o.Container.ID) {
		return noID(o)
	}
	if e.expected(o) == nil {
		return nil // the archive comes again
	}
	_, err := e.inspect(ctx, o.Container.ID)
	if noContainer(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("container %.12s is here already, and not by this move", o.Container.ID)}
}

// expected refuses an order about another container than the one whose archive has come.
func (e *Engine) expected(o migrate.MoveSpec) error {
	text, err := safepath.ReadFile(e.arrived(o.Move))
	if err == nil && string(text) == o.Container.ID {
		return nil
	}
	return &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("no archive of container %.12q has come in this move", o.Container.ID)}
}

func noID(o migrate.MoveSpec) error {
	return &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("%.100q is no id of a container", o.Container.ID)}
}

// Receive takes a part of a container.
func (e *Engine) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (out migrate.StepOutcome, err error) {
	if p.Kind == migrate.PartArchive {
		if err := e.mayCome(ctx, o); err != nil {
			return out, err
		}
	}
	file := e.archive(o.Move) + ".part"
	limits, err := pack.Room(e.dir, o.Limit(p))
	if err != nil {
		return out, err
	}
	archive, size, err := pack.Unpack(r, limits)
	if err != nil {
		return out, err
	}
	defer archive.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return out, err
	}
	_, err = io.Copy(f, archive)
	err = errors.Join(err, f.Close())
	out = migrate.StepOutcome{Bytes: size().Packed, Raw: size().Raw}
	if err != nil {
		return out, errors.Join(err, os.Remove(file))
	}
	switch p.Kind {
	case migrate.PartImage:
		// The archive asks for the image by its name.
		if _, err = e.run(ctx, "load", "-i", file); err == nil {
			_, err = e.run(ctx, "tag", "--", o.Container.ImageID, o.Container.Image)
		}
		return out, errors.Join(err, os.Remove(file))
	case migrate.PartArchive:
		if err := os.WriteFile(e.arrived(o.Move), []byte(o.Container.ID), 0o600); err != nil {
			return out, err
		}
		return out, os.Rename(file, e.archive(o.Move))
	case migrate.PartMemory:
		return out, os.Rename(file, e.memory(o.Move))
	}
	return out, &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("a container of podman has no part %s", p)}
}
