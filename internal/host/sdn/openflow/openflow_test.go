// SPDX-License-Identifier: Apache-2.0

package openflow

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/base/tlsfile"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// The bytes are those of the specification's structures, written out by hand.
func TestFlowModOnTheWire(t *testing.T) {
	m := FlowMod{Command: Add, Flow: Flow{
		Priority: 100, Cookie: 0x0102030405060708,
		Match:   Match{IPProto(17), EthType(0x0800), InPort(1)},
		Actions: []Action{SetQueue(3), Output(9)},
	}}
	want := strings.Join([]string{
		"0102030405060708" + "0000000000000000",                                             // cookie, mask
		"00" + "00" + "0000" + "0000" + "0064",                                              // table, add, time-outs, priority
		"ffffffff" + "ffffffff" + "ffffffff" + "0000" + "0000",                              // buffer, port, group, flags, padding
		"0001" + "0017" + "80000004" + "00000001" + "80000a02" + "0800" + "80001401" + "11", // match
		"00", // padding
		"0004" + "0020" + "00000000",
		"0015" + "0008" + "00000003",
		"0000" + "0010" + "00000009" + "0000" + "000000000000",
	}, "")
	if got := hex.EncodeToString(m.encode()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestActions(t *testing.T) {
	for _, tt := range []struct {
		action    Action
		hex, text string
	}{
		{Output(9), "00000010000000090000000000000000", "output:9"},
		{Output(0xfffffffe), "00000010fffffffe0000000000000000", "LOCAL"},
		{SetQueue(7), "0015000800000007", "set_queue:7"},
		{SetReg(15, 1), "0019001000011e040000000100000000", "set_field:1->reg15"},
		{Resubmit(2), "ffff001000002320000efff802000000", "resubmit(,2)"},
		{Action{0, 22, 0, 8, 0, 0, 0, 1}, "0016000800000001", "0x0016000800000001"},
	} {
		if got := hex.EncodeToString(tt.action); got != tt.hex {
			t.Errorf("%s is %s, want %s", tt.text, got, tt.hex)
		}
		if got := tt.action.String(); got != tt.text {
			t.Errorf("%s reads %q, want %q", tt.hex, got, tt.text)
		}
	}
}

func TestMatchText(t *testing.T) {
	mac, _ := net.ParseMAC("02:00:00:00:00:05")
	m := Match{
		Prefix(FieldIPv4Src, netip.MustParsePrefix("10.1.2.3/8")), Prefix(FieldIPv6Dst, netip.MustParsePrefix("fd00::/64")),
		Port(FieldUDPDst, 5000, 0xfff8), Port(FieldTCPSrc, 80, 0xffff), Port(FieldTCPDst, 80, 0),
		Ethernet(FieldEthDst, mac), DSCP(46), VLAN(7), Reg(15, 0), InPort(3),
		{ID: 0x80004c00, Value: []byte{0, 1, 2, 3, 4, 5, 6, 7}},
	}.Canonical()
	want := "reg15=0,in_port=3,dl_dst=02:00:00:00:00:05,vlan_tci=0x1007,ip_dscp=46,nw_src=10.0.0.0/8,tcp_src=80," +
		"udp_dst=5000/0xfff8,ipv6_dst=fd00::/64,oxm_80004c00=0x0001020304050607"
	if got := m.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// anyMatch draws conditions on two fields, so that pairs are often related.
func anyMatch(t *rapid.T) Match {
	var m Match
	for _, id := range []FieldID{FieldTCPDst, FieldTCPSrc} {
		if rapid.Bool().Draw(t, "given") {
			m = append(m, Port(id, rapid.Uint16Range(0, 7).Draw(t, "value"), rapid.SampledFrom([]uint16{7, 6, 4, 3, 0}).Draw(t, "mask")))
		}
	}
	return m.Canonical()
}

func (m Match) fits(source, target uint16) bool {
	for _, f := range m {
		v := source
		if f.ID == FieldTCPDst {
			v = target
		}
		b := binary.BigEndian.AppendUint16(nil, v)
		for i := range b {
			if b[i]&f.maskAt(i) != f.Value[i] {
				return false
			}
		}
	}
	return true
}

// TestOverlapAndCover compares both with what all packets say.
func TestOverlapAndCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n := anyMatch(t), anyMatch(t)
		overlap, cover := false, true
		for source := range uint16(8) {
			for target := range uint16(8) {
				inM, inN := m.fits(source, target), n.fits(source, target)
				overlap = overlap || inM && inN
				cover = cover && (inM || !inN)
			}
		}
		if m.Overlaps(n) != overlap || n.Overlaps(m) != overlap {
			t.Errorf("%s and %s overlap: %v, want %v", m, n, m.Overlaps(n), overlap)
		}
		if m.Covers(n) != cover {
			t.Errorf("%s covers %s: %v, want %v", m, n, m.Covers(n), cover)
		}
	})
}

// flowStats returns a flow as a switch reports it.
func flowStats(f Flow) []byte {
	b := make([]byte, 48)
	b[2] = f.Table
	binary.BigEndian.PutUint16(b[12:], f.Priority)
	binary.BigEndian.PutUint64(b[24:], f.Cookie)
	binary.BigEndian.PutUint64(b[32:], f.Packets)
	binary.BigEndian.PutUint64(b[40:], f.Bytes)
	mod := FlowMod{Command: Add, Flow: f}.encode()
	b = append(b, mod[40:]...) // match and instructions
	binary.BigEndian.PutUint16(b, uint16(len(b)))
	return b
}

func TestFlowsAreReadAsWritten(t *testing.T) {
	want := Flow{Table: 2, Priority: 7, Cookie: 9, Packets: 11, Bytes: 13,
		Match:   Match{EthType(0x86dd), Prefix(FieldIPv6Src, netip.MustParsePrefix("fd00::/64"))},
		Actions: []Action{SetReg(15, 1), SetQueue(2), Resubmit(0)},
		Other:   []byte{0, 1, 0, 8, 3, 0, 0, 0}, // goto table 3
	}
	got, err := decodeFlows(append(flowStats(want), flowStats(Flow{})...))
	if err != nil || len(got) != 2 {
		t.Fatalf("%d flows, %v", len(got), err)
	}
	if !got[0].Same(want) || got[0].Packets != 11 || got[0].Bytes != 13 {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
	if text := got[0].ActionText(); text != "set_field:1->reg15,set_queue:2,resubmit(,0),instructions 0x0001000803000000" {
		t.Errorf("actions read %q", text)
	}
	if text := got[1].ActionText(); text != "drop" || got[1].Match.String() != "any" {
		t.Errorf("the empty flow reads %q, %q", got[1].Match, text)
	}
}

// FuzzDecode: nothing that a switch may say makes the decoders crash, and what
// they take means the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(flowStats(Flow{Priority: 1, Match: Match{InPort(1), Port(FieldUDPDst, 16, 0xfff0)}, Actions: []Action{SetQueue(1), Output(2)}}))
	f.Add(flowStats(Flow{Match: Match{Reg(15, 0)}, Actions: []Action{SetReg(15, 1), Resubmit(0)}, Other: []byte{0, 1, 0, 8, 3, 0, 0, 0}}))
	f.Add([]byte{0, 1, 0, 4})
	boundtest.Seeds[[]byte](f, bound.Policy)
	f.Fuzz(func(t *testing.T, b []byte) {
		boundtest.Hold(t, func() {
			_ = decodeError(b).Error()
			_, _ = decodePorts(b)
			flows, err := decodeFlows(b)
			if err != nil {
				return
			}
			for _, flow := range flows {
				_, _ = flow.Match.String(), flow.ActionText()
				again, err := decodeFlows(flowStats(flow))
				if err != nil || len(again) != 1 || !again[0].Same(flow) {
					t.Errorf("%+v is read again as %+v, %v", flow, again, err)
				}
			}
		})
	})
}

// script is a switch that answers what a test tells it to.
type script struct {
	net.Conn
	t *testing.T
}

func (s script) read() message {
	c := Conn{conn: s.Conn}
	m, err := c.receive(false)
	if err != nil && !errors.Is(err, io.EOF) {
		s.t.Error(err)
	}
	return m
}

func (s script) write(kind uint8, xid uint32, body ...byte) {
	_, _ = s.Write(encode(message{kind: kind, xid: xid, body: body}))
}

func (s script) greet() {
	s.read()
	s.write(typeHello, 0)
	s.write(typeBarrierReply, s.read().xid)
}

// against runs a scripted switch and a connection to it.
func against(t *testing.T, play func(script), use func(context.Context, *Conn, error)) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		play(script{conn, t})
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := Dial(ctx, "unix:"+path, tlsfile.Files{})
	use(ctx, c, err)
	if c != nil {
		c.Close()
	}
	<-done
}

func TestEchoIsAnswered(t *testing.T) {
	against(t, func(s script) {
		s.greet()
		asked := s.read()
		s.write(typeEchoRequest, 77, 1, 2, 3)
		if m := s.read(); m.kind != typeEchoReply || m.xid != 77 || !bytes.Equal(m.body, []byte{1, 2, 3}) {
			t.Errorf("the echo is %+v", m)
		}
		s.write(typeMultipartReply, asked.xid, 0, multipartFlow, 0, 1, 0, 0, 0, 0) // more follows
		s.write(typeMultipartReply, asked.xid, append([]byte{0, multipartFlow, 0, 0, 0, 0, 0, 0}, flowStats(Flow{Priority: 5})...)...)
	}, func(ctx context.Context, c *Conn, err error) {
		if err != nil {
			t.Fatal(err)
		}
		flows, err := c.Flows(ctx, All)
		if err != nil || len(flows) != 1 || flows[0].Priority != 5 {
			t.Errorf("got %+v, %v", flows, err)
		}
	})
}

func TestRefusedFlowDiscardsTheBundle(t *testing.T) {
	var kinds []uint16
	control := func(m message) {
		kind := binary.BigEndian.Uint16(m.body[12:])
		kinds = append(kinds, kind)
	}
	against(t, func(s script) {
		s.greet()
		opened := s.read()
		control(opened)
		s.write(typeExperimenter, opened.xid, opened.body...)
		s.read() // good
		bad := s.read()
		barrier := s.read()
		s.write(typeError, bad.xid, 0, 4, 0, 9)
		s.write(typeBarrierReply, barrier.xid)
		dropped := s.read()
		control(dropped)
		s.write(typeExperimenter, dropped.xid, dropped.body...)
	}, func(ctx context.Context, c *Conn, err error) {
		if err != nil {
			t.Fatal(err)
		}
		err = c.Commit(ctx, []FlowMod{{Add, Flow{Priority: 1}}, {Add, Flow{Priority: 2, Match: Match{IPProto(6)}}}})
		want := "flow priority=2,nw_proto=6 actions=drop: the switch says: bad match, a field needs another one that is missing (OpenFlow error 4.9)"
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	})
	if len(kinds) != 2 || kinds[0] != bundleOpen || kinds[1] != bundleDiscard {
		t.Errorf("bundle control messages %v, want open and discard", kinds)
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	for address, want := range map[string]string{
		"unix:/no/such": "openflow unix:/no/such: no such file or directory",
		"up0":           `"up0" is no address; write unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT`,
		"tcp:10.0.0.1":  `"tcp:10.0.0.1" is no address; write unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT`,
	} {
		if _, err := Dial(t.Context(), address, tlsfile.Files{}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", address, err, want)
		}
	}
	against(t, func(s script) {
		s.read()
		s.write(typeHello, 0)
		s.write(typeError, 0, 0, 0, 0, 0)
		s.read()
	}, func(_ context.Context, _ *Conn, err error) {
		if err == nil || !strings.Contains(err.Error(), "does not speak OpenFlow 1.3") {
			t.Errorf("another version: %v", err)
		}
	})
	against(t, func(s script) {
		s.read()
		_, _ = s.Write(encode(message{version: 1, kind: typeHello, body: []byte{0, 1, 0, 8, 0, 0, 0, 1 << 1}}))
	}, func(_ context.Context, _ *Conn, err error) {
		if err == nil || !strings.Contains(err.Error(), "does not speak OpenFlow 1.3") {
			t.Errorf("a list of other versions: %v", err)
		}
	})
	against(t, func(s script) { s.greet(); s.read() }, func(ctx context.Context, c *Conn, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Ports(ctx); err == nil || !strings.Contains(err.Error(), "closed the connection") {
			t.Errorf("a lost connection: %v", err)
		}
	})
}

func TestNoAnswerEndsWithTheContext(t *testing.T) {
	wait := make(chan struct{})
	against(t, func(s script) { s.greet(); s.read(); <-wait }, func(ctx context.Context, c *Conn, err error) {
		defer close(wait)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := c.Ports(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
