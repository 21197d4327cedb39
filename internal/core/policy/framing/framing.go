// SPDX-License-Identifier: Apache-2.0

// Package framing says how many bytes of a line a packet takes. A line carries more than the
// kernel counts: preambles, checksums, the headers of a modem, whole cells.
//
//	f, err := framing.Parse("pppoe-llcsnap") // an ADSL modem: 40 bytes from the IP header on, in cells
//	f.On(98, framing.Ethernet)               // a ping of 84 bytes in an Ethernet frame: 159
//
// The names and their numbers are those of tc-cake(8), and so is the calculation
// (cake_calc_overhead in net/sched/sch_cake.c).
package framing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Ethernet is the length of an Ethernet header in bytes.
const Ethernet = 14

// Cells says in what a line carries its frames.
type Cells string

// A line carries frames as they are, or in cells.
const (
	Frames Cells = ""
	ATM    Cells = "atm" // whole cells of 53 bytes, 48 of them for the frame: ADSL
	PTM    Cells = "ptm" // 65 bytes for each 64: VDSL2
)

// Framing is what a line adds to each frame.
type Framing struct {
	Overhead int   // bytes added to a frame's length, may be negative
	FromIP   bool  // to its length from the IP header on; else to all that the kernel counts
	Least    int   // bytes that the shortest frame takes, Overhead included; 0 = no such bound
	Cells    Cells // one of Frames, ATM, PTM
}

// Bounds of what Parse takes, in bytes.
const (
	LeastOverhead = -64
	MostOverhead  = 256
	mostLeast     = 256
)

// names are the presets. Each but raw counts from the IP header on.
var names = map[string]Framing{
	"none":            {},
	"raw":             {},
	"conservative":    {Overhead: 48, FromIP: true, Cells: ATM},
	"ethernet":        {Overhead: 38, FromIP: true, Least: 84}, // preamble 8, header 14, checksum 4, gap 12
	"docsis":          {Overhead: 18, FromIP: true, Least: 64},
	"pppoe-ptm":       {Overhead: 30, FromIP: true, Cells: PTM},
	"bridged-ptm":     {Overhead: 22, FromIP: true, Cells: PTM},
	"ipoa-vcmux":      {Overhead: 8, FromIP: true, Cells: ATM},
	"ipoa-llcsnap":    {Overhead: 16, FromIP: true, Cells: ATM},
	"bridged-vcmux":   {Overhead: 24, FromIP: true, Cells: ATM},
	"bridged-llcsnap": {Overhead: 32, FromIP: true, Cells: ATM},
	"pppoa-vcmux":     {Overhead: 10, FromIP: true, Cells: ATM},
	"pppoa-llc":       {Overhead: 14, FromIP: true, Cells: ATM},
	"pppoe-vcmux":     {Overhead: 32, FromIP: true, Cells: ATM},
	"pppoe-llcsnap":   {Overhead: 40, FromIP: true, Cells: ATM},
}

// Names returns the names of presets, in the order of the alphabet.
func Names() []string { return slices.Sorted(maps.Keys(names)) }

// VLANTag is the length of a VLAN's tag in bytes.
const VLANTag = 4

// Parse reads a framing: a preset, or a number of bytes, and words after or before it in any
// order: atm, ptm or noatm, ether-vlan (4 bytes more for a tag, also twice), mpu BYTES. A number
// with atm or ptm counts from the IP header on, as tc-cake's; alone it is added to what the
// kernel counts. Errors say in one line what is wrong and what may be written.
func Parse(text string) (Framing, error) {
	var f Framing
	said := false
	tags := 0
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		word := words[i]
		number, err := strconv.Atoi(word)
		preset, known := names[word]
		switch {
		case (known || err == nil) && said:
			return f, fmt.Errorf("%q has two overheads; give one", text)
		case known:
			cells := f.Cells
			f, said = preset, true
			if cells != Frames {
				f.Cells = cells
			}
		case err == nil && (number < LeastOverhead || number > MostOverhead):
			return f, fmt.Errorf("%d is no overhead; give bytes for each packet from %d to %d", number, LeastOverhead, MostOverhead)
		case err == nil:
			f.Overhead, said = number, true
		case word == "atm" || word == "ptm":
			f.Cells, f.FromIP = Cells(word), true
		case word == "noatm":
			f.Cells = Frames
		case word == "ether-vlan":
			tags++
		case word == "mpu" && i+1 < len(words):
			i++
			if f.Least, err = strconv.Atoi(words[i]); err != nil || f.Least < 0 || f.Least > mostLeast {
				return f, fmt.Errorf("%q is no least length; give mpu and bytes from 0 to %d", words[i], mostLeast)
			}
		default:
			return f, fmt.Errorf("%q is no overhead; give bytes for each packet from %d to %d, or one of %s; then atm, ptm, ether-vlan or mpu BYTES where the line has them",
				text, LeastOverhead, MostOverhead, strings.Join(Names(), ", "))
		}
	}
	if !said {
		return f, fmt.Errorf("%q has no overhead; give bytes for each packet from %d to %d, or one of %s", text, LeastOverhead, MostOverhead, strings.Join(Names(), ", "))
	}
	f.Overhead += tags * VLANTag
	if f.Overhead > MostOverhead || tags > 2 {
		return f, fmt.Errorf("%q adds more than %d bytes, or more than two tags", text, MostOverhead)
	}
	return f, nil
}

// Header returns how many bytes before the IP header its overhead counts too: those of an Ethernet
// header, or none.
func (f Framing) Header() int {
	if f.FromIP {
		return Ethernet
	}
	return 0
}

// On returns the bytes that a line takes for a frame of length bytes as the kernel counts it,
// header of which come before the IP header (Ethernet, or 0 on a device without). At least 1.
func (f Framing) On(length, header int) int {
	if f.FromIP {
		length -= header
	}
	length = max(length+f.Overhead, f.Least, 1)
	switch f.Cells {
	case ATM:
		return (length + 47) / 48 * 53
	case PTM:
		return length + (length+63)/64
	}
	return length
}

// String words it, as in "24 bytes" or "40 bytes from the IP header on, mpu 64, atm".
func (f Framing) String() string {
	text := fmt.Sprintf("%d bytes", f.Overhead)
	if f.FromIP {
		text += " from the IP header on"
	}
	if f.Least > 0 {
		text += fmt.Sprintf(", mpu %d", f.Least)
	}
	if f.Cells != Frames {
		text += ", " + string(f.Cells)
	}
	return text
}
