// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"context"
	"encoding/binary"
	"fmt"
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
	if err == nil || !strings.Contains(err.Error(), "more than 4 MB") {
		t.Errorf("%v", err)
	}
}

// TestCostOfAnAnswer: an answer as long as one may be takes no more than an input may, whatever
// its flows and ports are; one of more fields than Weir reads is refused.
func TestCostOfAnAnswer(t *testing.T) {
	flow := func(match, instructions int, fill string) string {
		b := binary.BigEndian.AppendUint16(nil, uint16(48+(4+match+7)/8*8+instructions))
		b = append(b, make([]byte, 46)...)
		b = binary.BigEndian.AppendUint16(b, 1)
		b = binary.BigEndian.AppendUint16(b, uint16(4+match))
		return string(b) + fill
	}
	actions := "\x00\x04\xfd\xe8\x00\x00\x00\x00" + strings.Repeat("\x00\x00\x00\x08\x00\x00\x00\x00", (0xfde8-8)/8)
	for name, test := range map[string]struct {
		one  string
		most int // how many, if fewer than there is room for
		want string
	}{
		"empty flows":       {flow(0, 0, "\x00\x00\x00\x00"), 1 << 20, ""},
		"flows as Weir's":   {flow(12, 32, strings.Repeat("\x80\x00\x0a\x02\x08\x00", 2)+"\x00\x04\x00\x20\x00\x00\x00\x00"+strings.Repeat("\x00\x00\x00\x08\x00\x00\x00\x00", 3)), 17000, ""},
		"flows of fields":   {flow(65000, 0, strings.Repeat("\x80\x00\x0a\x00", 65000/4)+"\x00\x00\x00\x00"), 1 << 20, "more than 87381 fields and actions"},
		"flows of actions":  {flow(0, 0xfde8, "\x00\x00\x00\x00"+actions), 1 << 20, "more than 87381 fields and actions"},
		"fields of 1 byte":  {flow(65000, 0, strings.Repeat("\x80\x00\x0a\x01\x07", 13000)+"\x00\x00\x00\x00"), 1 << 20, "more than 87381 fields and actions"},
		"a port each 64 B":  {strings.Repeat("\x00\x01\x02\x03", 16), 1 << 20, "flow of"},
		"other instruction": {flow(0, 8, "\x00\x00\x00\x00"+"\x00\x05\x00\x08\x00\x00\x00\x00"), 1 << 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte(strings.Repeat(test.one, min(maxAnswer/len(test.one), test.most)))
			var err error
			boundtest.Hold(t, func() {
				_, err = decodeFlows(data)
				_, _ = decodePorts(data)
			})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	ports := make([]byte, maxAnswer)
	for i := 0; i < len(ports); i += 64 {
		copy(ports[i+16:], fmt.Sprintf("port%d", i))
	}
	boundtest.Hold(t, func() {
		if list, err := decodePorts(ports); err != nil || len(list) != maxAnswer/64 {
			t.Errorf("%d ports, %v", len(list), err)
		}
	})
}
