// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/policy/framing"
)

// TestCharged: the qdisc charges each packet what the line takes for the frames that it will
// become, by the package that says so to people, whatever the device and the framing, offloaded or
// not.
func TestCharged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link := fairLink(100 * mbit)
		link.Framing = framing.Framing{
			Overhead: rapid.IntRange(framing.LeastOverhead, framing.MostOverhead).Draw(t, "overhead"),
			FromIP:   rapid.Bool().Draw(t, "from the IP header on"),
			Least:    rapid.SampledFrom([]int{0, 64, 84}).Draw(t, "mpu"),
			Cells:    rapid.SampledFrom(cells).Draw(t, "cells"),
		}
		if rapid.IntRange(0, 3).Draw(t, "plain") == 0 {
			link.Framing = framing.Framing{}
		}
		before := rapid.SampledFrom([]int{0, framing.Ethernet, 18}).Draw(t, "bytes before the IP header")
		headers := before + rapid.SampledFrom([]int{28, 40, 52, 60, 72}).Draw(t, "headers of IP and above")
		size := rapid.SampledFrom([]int{0, 20, 100, 536, 1448, 8948}).Draw(t, "payload of a segment")
		payload := rapid.IntRange(1, 9000).Draw(t, "payload")
		segments := 1
		if size > 0 {
			payload = rapid.IntRange(1, 40*size).Draw(t, "payload of all segments")
			segments = (payload + size - 1) / size
		}
		tagged := rapid.Bool().Draw(t, "tag")

		// A packet of a guest says no number of segments.
		said := segments
		if rapid.Bool().Draw(t, "a guest's") {
			said = 0
		}
		s := simulate(link)
		fmt.Fprintln(s, "charge", payload+segments*headers, payload+headers, size, said, map[bool]int{true: 1}[tagged], before, headers)
		want := 0
		for rest := payload; rest > 0; rest -= size {
			frame := headers + rest
			if size > 0 {
				frame = headers + min(rest, size)
			}
			if tagged && !link.Framing.FromIP {
				frame += 4
			}
			want += link.Framing.On(frame, before)
			if size == 0 {
				break
			}
		}
		if got, _, _ := strings.Cut(string(s.output(t)), "\n"); got != fmt.Sprint("charged ", want) {
			t.Fatalf("%d segments: %s, want %d", segments, got, want)
		}
	})
}
