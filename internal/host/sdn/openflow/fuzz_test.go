// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzMessages: whatever a switch says, the decoders end without a panic, and what
// they make is not larger than what was said.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 64))
	f.Add([]byte{0, 56, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0})
	boundtest.Seeds[[]byte](f, bound.Policy)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			if flows, err := decodeFlows(data); err == nil {
				if len(flows) > len(data) {
					t.Errorf("%d flows of %d bytes", len(flows), len(data))
				}
				for _, flow := range flows {
					_, _ = flow.Match.String(), flow.ActionText()
				}
			}
			_, _ = decodePorts(data)
			_, _, _ = decodeMatch(data)
			_, _ = decodeActions(data)
			_ = decodeError(data).Error()
			_ = speaks(message{version: 4, body: data})
		})
	})
}

// FuzzSwitch: a switch that says anything at any time is left within the time that
// the caller gives.
func FuzzSwitch(f *testing.F) {
	hello := []byte{4, 0, 0, 8, 0, 0, 0, 0}
	f.Add(append(hello, 4, typeBarrierReply, 0, 8, 0, 0, 0, 2))
	f.Add(append(hello, 4, typeBarrierReply, 0, 8, 0, 0, 0, 2, 4, typeMultipartReply, 0, 16, 0, 0, 0, 3, 0, 13, 0, 1, 0, 0, 0, 0))
	f.Add([]byte{4, 0, 0, 1, 0, 0, 0, 0})
	for _, text := range boundtest.Texts(bound.Policy) {
		f.Add(append(slices.Clone(hello), text...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			go func() {
				_, _ = theirs.Write(data)
				theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			c := &Conn{address: "test", conn: ours}
			defer c.Close()
			if c.guard(ctx, c.hello) == nil {
				_, _ = c.Ports(ctx)
				_, _ = c.Flows(ctx, All)
			}
			if ctx.Err() != nil {
				t.Error("it took more than 5 s")
			}
		})
	})
}

// TestEndlessAnswer: parts of an answer without end do not fill the memory.
func TestEndlessAnswer(t *testing.T) {
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs)
	sent := 0
	go func() {
		part := make([]byte, 65535)
		copy(part, []byte{4, typeMultipartReply, 0xff, 0xff, 0, 0, 0, 1, 0, multipartPortDesc, 0, 1})
		binary.BigEndian.PutUint32(part[4:], 1)
		for {
			n, err := theirs.Write(part)
			if sent += n; err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := &Conn{address: "test", conn: ours}
	defer c.Close()
	_, err := c.Ports(ctx)
	if err == nil || !strings.Contains(err.Error(), "more than 64 MB") {
		t.Errorf("%v", err)
	}
}
