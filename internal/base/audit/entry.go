// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"weir/internal/core/bound"
)

// Entry is one line: one change, or one attempt at it.
type Entry struct {
	Time   time.Time `json:"time" doc:"when it ended"`
	Who    Who       `json:"who"`
	Action string    `json:"action" doc:"the operation's id in the OpenAPI document, or policy, reload, start, step" example:"set-policy"`
	Object string    `json:"object,omitempty" doc:"the workload, group, link, node or container" example:"web"`
	Change any       `json:"change,omitempty" doc:"the requested change"`
	Before any       `json:"before,omitempty" doc:"what differs from after, as it was"`
	After  any       `json:"after,omitempty" doc:"what differs from before, as it is now"`
	Result string    `json:"result" enum:"done,refused,failed" doc:"failed: it was allowed and did not succeed"`
	Reason string    `json:"reason,omitempty" doc:"why it was refused or failed, or what led to it"`
	// Omitted counts entries like this one, refusals or changes by labels, since the last line
	// about them.
	Omitted int `json:"omitted,omitempty" doc:"refusals, or changes by labels, like this one that have no line of their own"`
}

// Results of an action.
const (
	Done    = "done"
	Refused = "refused"
	Failed  = "failed"
)

// Who is the author of a change. Command and Login belong to the process at the other end
// of a socket; Command is the name that it gives itself.
type Who struct {
	Via     string  `json:"via" enum:"socket,web,weir.yaml,label,manager,node,network,command,agent" doc:"how it came: over a socket of this host, by the agent's page, by the configuration file, by a container's label, from the cluster's manager, from another node, from the network without a certificate, by a command that works without the agent, or of the program's own accord"`
	UID     *uint32 `json:"uid,omitempty" doc:"user id"`
	User    string  `json:"user,omitempty" doc:"name of the user id"`
	Login   string  `json:"login,omitempty" doc:"the user who logged in, if that is another (sudo)"`
	PID     int32   `json:"pid,omitempty"`
	Command string  `json:"command,omitempty" doc:"name that the process gave itself"`
	Node    string  `json:"node,omitempty" doc:"name of the node"`
	Address string  `json:"address,omitempty" doc:"from where on the network"`
}

// Ways by which a change comes.
const (
	ViaSocket  = "socket"
	ViaWeb     = "web"
	ViaConfig  = "weir.yaml"
	ViaLabel   = "label"
	ViaManager = "manager"
	ViaNode    = "node"
	ViaNetwork = "network"
	ViaCommand = "command"
	ViaAgent   = "agent"
)

// MaxLine bounds a line, in bytes with its line end.
const MaxLine = bound.Line

// maxText bounds each text of an entry, in bytes; maxName that of short ones.
const (
	maxText = 1 << 10
	maxName = 256
)

// line returns the entry as it stands in the file.
func (e Entry) line() []byte {
	e.Time = e.Time.UTC()
	e.clip(maxName, maxText)
	text := encode(e)
	for _, part := range []*any{&e.Change, &e.Before, &e.After} {
		if len(text) <= MaxLine {
			break
		}
		*part = fmt.Sprintf("%d bytes, too long for a line", len(encode(*part)))
		text = encode(e)
	}
	if len(text) > MaxLine { // texts of characters that take six bytes each
		e.clip(maxName/4, maxText/4)
		text = encode(e)
	}
	return text
}

// clip cuts the short texts to name bytes and the reason to text bytes.
func (e *Entry) clip(name, text int) {
	for _, s := range []*string{&e.Action, &e.Object, &e.Result, &e.Who.Via, &e.Who.User, &e.Who.Login, &e.Who.Command, &e.Who.Node, &e.Who.Address} {
		*s = clip(*s, name)
	}
	e.Reason = clip(e.Reason, text)
}

// encode returns v as one line of JSON in which every character is printable.
func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		buf.Reset()
		_ = enc.Encode(map[string]string{"unreadable": err.Error()}) // a text can be encoded
	}
	text := buf.Bytes()
	var out []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == '\n' && size == len(text), r != '\n' && (unicode.IsPrint(r) && r != utf8.RuneError):
			out = append(out, text[:size]...)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

// clip cuts a text to at most n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
