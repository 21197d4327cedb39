// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A file of CRIU's begins with two magic numbers and the size of the message that follows, each
// of four bytes. The message has the form of protocol buffers.
const (
	imageMagic  = 8 // bytes
	imageHeader = imageMagic + 4
)

// Numbers of fields in the messages of cgroup.img: sets of cgroups have members with a path and
// the length of the path's beginning that is the root of the cgroup namespace; controllers have
// directories with a name, which is a path without its first slash.
const (
	entrySets, entryControllers = 1, 2
	setMembers                  = 2
	memberPath, memberPrefix    = 2, 3
	controllerDirs              = 2
	dirName                     = 1
)

var errImage = errors.New("CRIU's image of cgroups is not as CRIU writes it")

// Move returns CRIU's image of the cgroups of a container, was, with another one, is, in its place,
// whose cgroup is group. For example /docker/1f0... becomes /system.slice/docker-77a....scope. If
// group is "", the id is replaced in the image as it is: ids are of one length.
func Move(image []byte, was, is, group string) ([]byte, error) {
	if len(was) != len(is) {
		return nil, fmt.Errorf("containers %s and %s have ids of two lengths", was, is)
	}
	if group == "" {
		return bytes.ReplaceAll(image, []byte(was), []byte(is)), nil
	}
	if len(image) < imageHeader || int(binary.LittleEndian.Uint32(image[imageMagic:])) != len(image)-imageHeader {
		return nil, errImage
	}
	m := groupMove{was: was, to: group}
	entry, err := rewrite(image[imageHeader:], map[uint64]rewriter{entrySets: m.set, entryControllers: m.controller})
	if err != nil {
		return nil, err
	}
	moved := binary.LittleEndian.AppendUint32(append([]byte{}, image[:imageMagic]...), uint32(len(entry)))
	return append(moved, entry...), nil
}

// groupMove replaces paths of cgroups.
type groupMove struct{ was, to string }

// from returns the beginning of a path that is the container's cgroup, "" if it is in another.
func (m groupMove) from(path string) string {
	at := strings.Index(path, m.was)
	if at < 0 {
		return ""
	}
	end := strings.IndexByte(path[at:], '/')
	if end < 0 {
		return path
	}
	return path[:at+end]
}

func (m groupMove) set(f field) (field, error) {
	return f.within(map[uint64]rewriter{setMembers: m.member})
}

func (m groupMove) controller(f field) (field, error) {
	return f.within(map[uint64]rewriter{controllerDirs: m.dir})
}

func (m groupMove) dir(f field) (field, error) {
	return f.within(map[uint64]rewriter{dirName: func(f field) (field, error) {
		if from := m.from(string(f.bytes)); from != "" {
			f.bytes = []byte(strings.TrimPrefix(m.to, "/") + string(f.bytes[len(from):]))
		}
		return f, nil
	}})
}

// member replaces a path, and the length of its beginning that is the namespace's root.
func (m groupMove) member(f field) (field, error) {
	from := ""
	return f.within(map[uint64]rewriter{
		memberPath: func(f field) (field, error) {
			if from = m.from(string(f.bytes)); from != "" {
				f.bytes = []byte(m.to + string(f.bytes[len(from):]))
			}
			return f, nil
		},
		memberPrefix: func(f field) (field, error) { // CRIU writes fields in the order of their numbers
			if from != "" && f.number == uint64(len(from)) {
				f.number = uint64(len(m.to))
			}
			return f, nil
		},
	})
}

// field is one of a message: a number, or bytes (a text, a message).
type field struct {
	id     uint64
	number uint64
	bytes  []byte // nil for a number
}

type rewriter func(field) (field, error)

// within rewrites fields of the message that a field has.
func (f field) within(by map[uint64]rewriter) (field, error) {
	var err error
	f.bytes, err = rewrite(f.bytes, by)
	return f, err
}

// The kinds of fields that CRIU's messages have.
const (
	kindBits   = 3
	kindNumber = 0
	kindBytes  = 2
)

// rewrite returns a message with the fields of some ids rewritten.
func rewrite(message []byte, by map[uint64]rewriter) ([]byte, error) {
	out := make([]byte, 0, len(message))
	next := func() (uint64, bool) {
		n, size := binary.Uvarint(message)
		if size <= 0 {
			return 0, false
		}
		message = message[size:]
		return n, true
	}
	for len(message) > 0 {
		tag, ok := next()
		value, okValue := next()
		f, kind := field{id: tag >> kindBits}, tag&(1<<kindBits-1)
		switch {
		case !ok || !okValue:
			return nil, errImage
		case kind == kindNumber:
			f.number = value
		case kind == kindBytes && value <= uint64(len(message)):
			f.bytes, message = message[:value:value], message[value:]
		default:
			return nil, errImage
		}
		if change := by[f.id]; change != nil {
			var err error
			if f, err = change(f); err != nil {
				return nil, err
			}
		}
		out = binary.AppendUvarint(out, tag)
		if kind == kindBytes {
			out = append(binary.AppendUvarint(out, uint64(len(f.bytes))), f.bytes...)
		} else {
			out = binary.AppendUvarint(out, f.number)
		}
	}
	return out, nil
}
