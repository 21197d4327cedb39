// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"strings"
	"testing"

	"weir/internal/core/plan"
)

// The agent chooses bits that no other program uses, keeps its former ones while they are free, and
// says what is wrong where there are none.
func TestChooseMask(t *testing.T) {
	hidden := []error{errors.New("nft: no")}
	for _, tt := range []struct {
		name  string
		marks Marks
		kept  plan.Mask
		want  plan.Mask
		why   string // part of the text
	}{
		{"nobody uses any", Marks{}, 0, 0xfffe0000, ""},
		{"a VPN", Marks{Users: []MarkUser{{Bits: 0xff0000}}}, 0, 0xfffe, ""},
		{"calico", Marks{Products: []string{"calico"}}, 0, 0xfffe, ""},
		{"the ones of before are free", Marks{Users: []MarkUser{{Bits: 0xff0000}}}, 0xff, 0xff, ""},
		{"the ones of before are not", Marks{Users: []MarkUser{{Bits: 0xff}}}, 0xff, 0xfffe0000, ""},
		{"the last four", Marks{Users: []MarkUser{{Bits: ^uint32(0xf0)}}}, 0, 0xf0, ""},
		{"three are too few", Marks{Users: []MarkUser{{Bits: ^uint32(0x70)}}}, 0, 0, "leaves no run of 4"},
		{"none", Marks{Users: []MarkUser{{Bits: allBits}}}, 0xff, 0, "leaves no run of 4"},
		{"the whole mark is compared with what nobody sets", Marks{Users: []MarkUser{{Bits: allBits, Reads: true, Value: 1}}}, 0, 0xfffe0000, ""},
		{"it is among the usual bits", Marks{Users: []MarkUser{{Bits: allBits, Reads: true, Value: 1 << 31}}}, 0, 0x7fff0000, ""},
		{"a part of it is set", Marks{Users: []MarkUser{{Bits: allBits, Reads: true, Value: 0x10001}, {Bits: 0xffff}}}, 0, 0xfffe0000, ""},
		{"it is set", Marks{Users: []MarkUser{{Bits: allBits, Reads: true, Value: 0x10001}, {Bits: 0xfffff}}}, 0, 0, "leaves no run of 4"},
		{"a product may set it", Marks{Products: []string{"kube-proxy"}, Users: []MarkUser{{Bits: allBits, Reads: true, Value: 0x4000}}}, 0, 0, "leaves no run of 4"},
		{"rules are hidden", Marks{Unread: hidden}, 0, 0, "cannot be told"},
	} {
		got, why := Host{Marks: tt.marks}.choose(tt.kept)
		if got != tt.want || (why.Seen == "") != (tt.why == "") || !strings.Contains(why.Seen, tt.why) || (why.Seen != "") != (why.Remedy != "") {
			t.Errorf("%s: %#x, %+v; want %#x, %q", tt.name, uint32(got), why, uint32(tt.want), tt.why)
		}
	}
	for _, tt := range []struct {
		name         string
		marks        Marks
		mask         plan.Mask
		seen, remedy string // "" = all is well
	}{
		{"nobody else uses them", Marks{Users: []MarkUser{{Bits: 0xff}}}, 0xff0000, "", ""},
		{"another came, others are free", Marks{Users: []MarkUser{{Rule: "theirs", Bits: 0x10000, Reads: true}}}, 0xff0000, "compares 0x10000", "it takes 0xfffe0000 then"},
		{"another came, none are free", Marks{Users: []MarkUser{{Rule: "theirs", Bits: allBits}}}, 0xff0000, "writes 0xff0000", "a mask"},
		{"rules are hidden", Marks{Unread: hidden}, 0xff0000, "cannot be told whether", "can run nft"},
		{"there were none, and are none", Marks{Users: []MarkUser{{Bits: allBits}}}, 0, "leaves no run", "started again"},
		{"there were none, and are some", Marks{}, 0, "0xfffe0000 of the mark are free by now", "start the agent again"},
	} {
		got := Host{Marks: tt.marks}.autoTrouble(tt.mask)
		if !strings.Contains(got.Seen, tt.seen) || !strings.Contains(got.Remedy, tt.remedy) || (got.Seen == "") != (tt.seen == "") {
			t.Errorf("%s: %+v; want %q, %q", tt.name, got, tt.seen, tt.remedy)
		}
	}
}
