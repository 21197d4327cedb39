// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"strings"
	"sync"

	"weir/internal/core/invalid"
)

// Preset is a named list of matches: the usual marks and ports of an application.
// It knows agreed marks and ports, not the content of packets: a video call over
// TCP port 443 is web here, unless its sender marks it.
type Preset struct {
	Name string
	Doc  string // one line, with the sources
	text string // as ParseMatches reads it
}

// presets is the table of presets. Its code points are from RFC 4594 (tables 3 and 4),
// its ports from IANA's service name registry.
var presets = []Preset{
	{"voip", "Telephony ef and va (RFC 4594, 5865), signalling cs5; sip, sips, rtp's avt-profile-1 and -2, iax, stun",
		"[{dscp: ef}, {dscp: va}, {dscp: cs5}, {udp: [5060-5061, 5004-5005, 4569, 3478]}, {tcp: 5060-5061}]"},
	{"video", "Conferencing af41 to af43, interactive cs4, streaming af31 to af33, broadcast cs3 (RFC 4594); rtsp, rtmp",
		"[{dscp: af41}, {dscp: af42}, {dscp: af43}, {dscp: cs4}, {dscp: af31}, {dscp: af32}, {dscp: af33}, {dscp: cs3}, {tcp: [554, 1935]}, {udp: 554}]"},
	{"bulk", "High-throughput data af11 to af13, low priority cs1 (RFC 4594), le (RFC 8622); ftp, nntp, rsync, bittorrent's first ports",
		"[{dscp: af11}, {dscp: af12}, {dscp: af13}, {dscp: cs1}, {dscp: le}, {tcp: [20-21, 119, 873, 6881-6889]}, {udp: 6881-6889}]"},
	{"dns", "domain; domain-s over TLS and QUIC (RFC 7858, 9250)", "[{udp: [53, 853]}, {tcp: [53, 853]}]"},
	{"web", "http, https, QUIC (RFC 9114), http-alt", "[{tcp: [80, 443, 8080]}, {udp: 443}]"},
	{"ssh", "ssh", "[{tcp: 22}]"},
	{"ntp", "ntp, and ntske's TCP port (RFC 8915)", "[{udp: 123}, {tcp: 4460}]"},
	{"mail", "smtp, submission, submissions, pop3, pop3s, imap, imaps", "[{tcp: [25, 465, 587, 110, 995, 143, 993]}]"},
	{"control", "Network control cs6 (RFC 4594); ICMP, bgp, OSPF", "[{dscp: cs6}, {proto: icmp}, {proto: icmp6}, {tcp: 179}, {proto: 89}]"},
}

// Presets lists the presets.
func Presets() []Preset { return presets }

// Matches returns the matches that the preset stands for. The caller may not change them.
func (p Preset) Matches() []Match { return presetMatches()[p.Name] }

// presetMatches are the matches of each preset. They are read once: a policy may name presets 64
// times, and is checked for each of its times.
var presetMatches = sync.OnceValue(func() map[string][]Match {
	all := map[string][]Match{}
	for _, p := range presets {
		matches, err := ParseMatches(p.text)
		if err != nil {
			panic("preset " + p.Name + ": " + err.Error()) // a test reads all of them
		}
		all[p.Name] = matches
	}
	return all
})

func presetNamed(name string) (Preset, error) {
	var names []string
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, &invalid.Error{Field: "preset", Value: name, Msg: "no such preset", Remedy: "known here: " + strings.Join(names, ", ")}
}
