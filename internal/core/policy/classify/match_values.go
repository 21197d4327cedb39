// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
)

// The readers and writers of a match's single values.

// word returns a single value as text.
func word(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return strings.TrimSpace(v), nil
	case json.Number:
		return v.String(), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		}
		return "", &invalid.Error{Value: fmt.Sprint(v), Msg: "not a whole number"}
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), nil
	}
	return "", &invalid.Error{Value: fmt.Sprint(value), Msg: "not a single value", Remedy: "write one number or word"}
}

// readWord makes the reader of a key with one value.
func readWord[T comparable](parse func(string) (T, error), into func(*Match) *Opt[T]) func(*Match, any) error {
	return func(m *Match, value any) error {
		text, err := word(value)
		if err != nil {
			return err
		}
		parsed, err := parse(text)
		if err == nil {
			*into(m) = Given(parsed)
		}
		return err
	}
}

func (m *Match) readPreset(value any) error {
	text, err := word(value)
	if err != nil {
		return err
	}
	m.Preset = strings.ToLower(text)
	_, err = presetNamed(m.Preset)
	return err
}

func readPorts(into func(*Match) *[]PortRange) func(*Match, any) error {
	return func(m *Match, value any) error {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		if len(list) == 0 {
			return &invalid.Error{Value: "[]", Msg: "an empty list of ports", Remedy: "write 5060, 5000-5010 or a list of them"}
		}
		if err := few("ports or ranges", len(list)); err != nil {
			return err
		}
		for _, item := range list {
			text, err := word(item)
			if err != nil {
				return err
			}
			ports, err := parsePorts(text)
			if err != nil {
				return err
			}
			*into(m) = append(*into(m), ports)
		}
		return nil
	}
}

// few refuses a list of more entries than a workload can have rules.
func few(what string, count int) error {
	if count <= MaxRules {
		return nil
	}
	return &invalid.Error{Value: strconv.Itoa(count), Msg: fmt.Sprintf("%d %s, %d are the most", count, what, MaxRules), Remedy: "join them to ranges, or mark the traffic by dscp where it is sent"}
}

func parsePorts(text string) (PortRange, error) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	low, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	high, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	if err1 != nil || err2 != nil {
		return PortRange{}, &invalid.Error{Value: text, Msg: "not a port or a range of ports", Remedy: "write 5060, 5000-5010 or a list of them, 0 to 65535"}
	}
	if low > high {
		return PortRange{}, &invalid.Error{Value: text, Msg: "a range that ends before it begins", Remedy: fmt.Sprintf("write %d-%d", high, low)}
	}
	return PortRange{uint16(low), uint16(high)}, nil
}

func formatPorts(list []PortRange) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	if len(texts) > 1 {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, "")
}

func parseProto(text string) (uint8, error) {
	for number, name := range protoNames {
		if strings.EqualFold(name, text) {
			return number, nil
		}
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, &invalid.Error{Value: text, Msg: "no such protocol", Remedy: "write tcp, udp, icmp, icmp6, sctp, esp, gre or a number up to 255"}
	}
	return uint8(number), nil
}

func formatProto(proto uint8) string {
	if name, ok := protoNames[proto]; ok {
		return name
	}
	return strconv.Itoa(int(proto))
}

// readPrefix makes the reader of a key with an address or a prefix.
func readPrefix(into func(*Match) *netip.Prefix) func(*Match, any) error {
	return func(m *Match, value any) error {
		text, err := word(value)
		if err != nil {
			return err
		}
		*into(m), err = ParsePrefix(text)
		return err
	}
}

// ParsePrefix reads a prefix, or an address as one of its full length. The error is an
// *invalid.Error.
func ParsePrefix(text string) (netip.Prefix, error) {
	fail := func(msg, remedy string) (netip.Prefix, error) {
		return netip.Prefix{}, &invalid.Error{Value: text, Msg: msg, Remedy: remedy}
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return fail("not an address or prefix", "write one such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32")
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return fail("an IPv4 address in IPv6 form", "write it as IPv4, such as "+prefix.Addr().Unmap().String())
	}
	if prefix != prefix.Masked() {
		return fail("bits are set behind the prefix", "write "+prefix.Masked().String()+", or the address alone")
	}
	return prefix, nil
}

func formatPrefix(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return ""
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.String()
}

// numberUpTo makes the parser of a number, decimal or 0x hexadecimal.
func numberUpTo[T uint16 | uint32](most uint64, what string) func(string) (T, error) {
	return func(text string) (T, error) {
		number, err := strconv.ParseUint(text, 0, 64)
		if err != nil || number > most {
			return 0, &invalid.Error{Value: text, Msg: "not " + what, Remedy: fmt.Sprintf("write a number from 0 to %d", most)}
		}
		return T(number), nil
	}
}

func parseBits(text string) (Bits, error) {
	fail := func(msg, remedy string) (Bits, error) {
		return Bits{}, &invalid.Error{Value: text, Msg: msg, Remedy: remedy}
	}
	value, mask, masked := strings.Cut(text, "/")
	if !masked {
		mask = "0xffffffff"
	}
	v, err1 := strconv.ParseUint(strings.TrimSpace(value), 0, 32)
	m, err2 := strconv.ParseUint(strings.TrimSpace(mask), 0, 32)
	switch {
	case err1 != nil || err2 != nil:
		return fail("not a mark", "write one such as 5 or 0x50/0xf0, of 32 bits")
	case m == 0:
		return fail("a mask without any bit", "write one such as 0x50/0xf0")
	case v&^m != 0:
		return fail("bits outside of the mask", fmt.Sprintf("write %#x/%#x", v&m, m))
	}
	return Bits{uint32(v), uint32(m)}, nil
}

func decimal[T uint16 | uint32](v T) string { return strconv.FormatUint(uint64(v), 10) }

func formatOpt[T comparable](o Opt[T], format func(T) string) string {
	if !o.Given {
		return ""
	}
	return format(o.Value)
}

// MarshalJSON writes the match as an object with the keys of weir.yaml.
func (m Match) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for _, f := range matchFields {
		text := f.write(m)
		if text == "" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", f.name, jsonValue(text))
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// jsonValue returns a value as String writes it, in JSON.
func jsonValue(text string) string {
	if list, ok := strings.CutPrefix(text, "["); ok {
		items := strings.Split(strings.TrimSuffix(list, "]"), ", ")
		for i, item := range items {
			items[i] = jsonValue(item)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	if _, err := strconv.ParseUint(text, 10, 64); err == nil {
		return text
	}
	return strconv.Quote(text)
}

// UnmarshalJSON reads what MarshalJSON wrote, or anything that ParseMatch takes.
func (m *Match) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return &invalid.Error{Field: "match", Value: string(text), Msg: "not a match", Remedy: `write it as {"udp": 5001}`}
	}
	parsed, err := ParseMatch(fields)
	if err == nil {
		*m = parsed
	}
	return err
}
