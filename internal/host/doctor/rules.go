// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const allBits = 0xffffffff

// ownerOf says which product made a chain or a table, by its name.
func ownerOf(name string) string {
	for prefix, owner := range map[string]string{"cali": "calico", "CILIUM_": "cilium", "KUBE-": "kube-proxy", "kube-proxy": "kube-proxy"} {
		if strings.HasPrefix(name, prefix) {
			return owner
		}
	}
	return ""
}

// iptablesMarks reads the uses of the mark out of the output of iptables-save.
func iptablesMarks(dump string) []MarkUser {
	var users []MarkUser
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "-A" {
			continue
		}
		use := MarkUser{Owner: ownerOf(words[1]), Rule: "iptables " + line}
		if bits := iptablesWrites(words); bits != 0 {
			use.Bits = bits
			users = append(users, use)
		}
		if bits := iptablesReads(words); bits != 0 {
			use.Bits, use.Reads = bits, true
			users = append(users, use)
		}
	}
	return users
}

// iptablesWrites returns the bits that the target of a rule changes.
func iptablesWrites(words []string) uint32 {
	switch target := after(words, "-j"); target {
	case "MARK":
		for _, option := range []string{"--set-xmark", "--set-mark"} {
			if text := after(words, option); text != "" {
				value, mask := valueMask(text)
				return value | mask
			}
		}
		if text := after(words, "--or-mark"); text != "" {
			value, _ := valueMask(text)
			return value
		}
		if text := after(words, "--and-mark"); text != "" {
			value, _ := valueMask(text)
			return ^value
		}
		return allBits
	case "CONNMARK":
		if !contains(words, "--restore-mark") {
			return 0 // it writes the connection's mark
		}
		return optional(words, "--nfmask")
	case "TPROXY":
		value, mask := valueMask(after(words, "--tproxy-mark"))
		return value | mask
	case "HMARK":
		return allBits
	}
	if contains(words, "--restore-skmark") || contains(words, "--map-mark") {
		return allBits
	}
	return 0
}

// optional returns the mask behind an option, all bits if the option is left out.
func optional(words []string, option string) uint32 {
	if text := after(words, option); text != "" {
		mask, _ := valueMask(text)
		return mask
	}
	return allBits
}

// iptablesReads returns the bits that -m mark compares, and those that a connection gets.
func iptablesReads(words []string) uint32 {
	if after(words, "-j") == "CONNMARK" && contains(words, "--save-mark") {
		return optional(words, "--nfmask")
	}
	for i := range words {
		if words[i] == "-m" && i+1 < len(words) && words[i+1] == "mark" {
			_, mask := valueMask(after(words[i:], "--mark"))
			return mask
		}
	}
	return 0
}

// valueMask reads VALUE or VALUE/MASK; without a mask it is all bits.
func valueMask(text string) (value, mask uint32) {
	v, m, given := strings.Cut(text, "/")
	number := func(s string) uint32 {
		n, _ := strconv.ParseUint(s, 0, 32) // what cannot be read counts as 0
		return uint32(n)
	}
	if !given {
		return number(v), allBits
	}
	return number(v), number(m)
}

// after returns the word behind a word, "" if there is none.
func after(words []string, word string) string {
	for i, w := range words[:max(len(words)-1, 0)] {
		if w == word {
			return words[i+1]
		}
	}
	return ""
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// nftMarks reads the uses of the mark out of the output of nft -j list ruleset. Rules of
// iptables-nft, whose marks nft does not spell out, are iptables-save's.
func nftMarks(dump []byte) ([]MarkUser, error) {
	var ruleset struct {
		Nftables []struct {
			Rule *nftRule `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(dump, &ruleset); err != nil {
		return nil, fmt.Errorf("nft -j list ruleset: %w", err)
	}
	var users []MarkUser
	for _, entry := range ruleset.Nftables {
		if entry.Rule != nil {
			users = append(users, entry.Rule.marks()...)
		}
	}
	return users, nil
}

type nftRule struct {
	Family string            `json:"family"`
	Table  string            `json:"table"`
	Chain  string            `json:"chain"`
	Expr   []json.RawMessage `json:"expr"`
}

func (r *nftRule) marks() []MarkUser {
	owner := ownerOf(r.Chain)
	if owner == "" {
		owner = ownerOf(r.Table)
	}
	var users []MarkUser
	for _, raw := range r.Expr {
		var statement map[string]any
		if json.Unmarshal(raw, &statement) != nil {
			continue // a statement without a mapping, such as "accept"
		}
		use := MarkUser{Owner: owner, Rule: fmt.Sprintf("nft %s %s %s: %s", r.Family, r.Table, r.Chain, raw)}
		if m, _ := statement["mangle"].(map[string]any); isMark(m["key"]) {
			use.Bits = written(m["value"])
		} else {
			use.Bits, use.Reads = read(statement), true
		}
		if use.Bits != 0 {
			users = append(users, use)
		}
	}
	return users
}

// isMark says whether an expression of nft is the packet's mark.
func isMark(e any) bool {
	m, _ := e.(map[string]any)
	meta, _ := m["meta"].(map[string]any)
	return meta["key"] == "mark"
}

// read returns the bits of the mark that an expression of nft depends on.
func read(e any) (bits uint32) {
	if isMark(e) {
		return allBits
	}
	switch e := e.(type) {
	case []any:
		for _, part := range e {
			bits |= read(part)
		}
	case map[string]any:
		if mask, known := masked(e); known {
			return mask
		}
		if fib, _ := e["fib"].(map[string]any); fibByMark(fib["flags"]) {
			return allBits
		}
		for _, part := range e {
			bits |= read(part)
		}
	}
	return bits
}

// masked returns the mask of an expression that is the mark and a mask.
func masked(e map[string]any) (mask uint32, known bool) {
	sides, _ := e["&"].([]any)
	if len(sides) != 2 || !isMark(sides[0]) {
		return 0, false
	}
	number, known := sides[1].(float64)
	return uint32(number), known
}

// fibByMark says whether a look into the routing table goes by the mark.
func fibByMark(flags any) bool {
	list, _ := flags.([]any)
	return slices.Contains(list, any("mark")) || flags == "mark"
}

// word is a value of 32 bits as a function of the mark, bit by bit: the value where the
// mark's bit is 0, the value where it is 1, and the bits that depend on something else.
type word struct{ zero, one, other uint32 }

// written returns the bits of the mark that are not sure to keep their value when an
// expression of nft is assigned to it.
func written(e any) uint32 {
	w := evaluate(e)
	return w.zero | ^w.one | w.other
}

// evaluate works out &, | and ^ of the mark and numbers; everything else may be
// anything.
func evaluate(e any) word {
	anything := word{other: allBits}
	if n, ok := e.(float64); ok {
		return word{zero: uint32(n), one: uint32(n)}
	}
	if isMark(e) {
		return word{zero: 0, one: allBits}
	}
	m, _ := e.(map[string]any)
	for operator, operands := range m {
		sides, _ := operands.([]any)
		if len(m) != 1 || len(sides) < 2 {
			return anything
		}
		w := evaluate(sides[0])
		for _, side := range sides[1:] {
			w = combine(operator, w, evaluate(side))
		}
		return w
	}
	return anything
}

func combine(operator string, a, b word) word {
	zeros := func(w word) uint32 { return ^(w.zero | w.one | w.other) }
	ones := func(w word) uint32 { return w.zero & w.one &^ w.other }
	switch operator {
	case "&":
		return word{a.zero & b.zero, a.one & b.one, (a.other | b.other) &^ (zeros(a) | zeros(b))}
	case "|":
		return word{a.zero | b.zero, a.one | b.one, (a.other | b.other) &^ (ones(a) | ones(b))}
	case "^":
		return word{a.zero ^ b.zero, a.one ^ b.one, a.other | b.other}
	}
	return word{other: allBits}
}
