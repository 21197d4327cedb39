// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/core/plan"
)

// productBits are the bits that a product may use wherever it runs, whether or not a
// rule shows it: Calico's Felix takes its own from 0xffff0000 (IptablesMarkMask),
// Cilium keeps a magic number in 0x0f00, the identity above and the cluster below
// (bpf/lib/common.h) and assigns the whole mark when it does so, kube-proxy marks with 0x4000 and
// 0x8000.
var productBits = map[string]uint32{
	"calico":     0xffff0000,
	"cilium":     allBits,
	"kube-proxy": 0x0000c000,
}

// errNoReader is the error of reading rules on a host without a tool for it.
var errNoReader = errors.New("neither nft nor iptables-save is installed")

// longestRule bounds the characters of a rule in the output.
const longestRule = 140

// marks says what of a packet carries its class, and compares Weir's bits of skb->mark, if
// mark_mask names some, with those of other users.
func marks(h Host) []Finding {
	var mask plan.Mask
	if h.Config.Err == nil {
		mask = plan.Mask(h.Config.Value.MarkMask)
	}
	var losing []Finding
	for _, l := range h.Marks.Losing {
		if seen, remedy := l.trouble(mask); seen != "" {
			losing = append(losing, Finding{Level: Warning, Seen: l.Name + ": " + seen, Remedy: remedy + h.freeBits(mask)})
		}
	}
	if mask == 0 {
		return append(losing, append(h.sealed(), h.awaited()...)...)
	}
	all := losing
	for _, why := range h.Marks.Unread {
		remedy := "run weir doctor as root"
		if errors.Is(why, errNoReader) {
			remedy = "install nftables, or iptables"
		}
		all = append(all, Finding{Level: Unknown, Seen: why.Error(), Remedy: remedy})
	}
	taken, clashing := h.otherMarks(uint32(mask))
	for _, u := range clashing {
		all = append(all, Finding{Level: Warning, Seen: u.clash(mask), Remedy: u.remedy(taken)})
	}
	if len(all) == len(losing) {
		return append(all, ok(fmt.Sprintf("no rule writes or compares Weir's bits %#x%s", uint32(mask), others(taken)))...)
	}
	return all
}

// sealed says that nothing of the mark is Weir's, and what Cilium leaves of the field that is.
func (h Host) sealed() []Finding {
	taken, _ := h.otherMarks(0)
	seen := "Weir writes and compares no bit of the mark" + others(taken)
	if slices.Contains(h.Marks.Products, "cilium") {
		seen += fmt.Sprintf("; beside Cilium, which uses five bits of skb->tc_index, it has room for %d workloads and for no queues inside them, unless mark_mask names bits of the mark", plan.Carrier{Cilium: true}.MaxClasses()-1)
	}
	return ok(seen)
}

// awaited says which bits the agent takes when it starts, where it is to choose them and has not.
func (h Host) awaited() []Finding {
	if h.Config.Err != nil || !h.Config.Value.MarkAuto {
		return nil
	}
	mask, why := h.choose(0)
	if mask == 0 {
		return warning(why.Seen, why.Remedy)
	}
	return ok(fmt.Sprintf("mark_mask is auto: the agent takes %#x when it starts", uint32(mask)))
}

// freeBits names bits for mark_mask, where there is none.
func (h Host) freeBits(mask plan.Mask) string {
	if free := longestRun(^h.takenMarks()); mask == 0 && free.Check() == nil {
		return fmt.Sprintf("; no rule here uses %#x", uint32(free))
	}
	return ""
}

// takenMarks returns the bits that all other users take.
func (h Host) takenMarks() uint32 {
	taken, _ := h.otherMarks(0)
	return taken
}

// otherMarks returns the bits that all other users take, and the users that take some of
// mask: an owner's rules that do the same count as one user, and so does a product.
//
// A comparison with a value that nobody sets fits no packet, whatever the other bits are, and takes
// the bits alone that it lacks. Example: libvirt's HTB at a guest's device compares the whole mark
// with 1, and nothing sets that: it takes bit 1.
func (h Host) otherMarks(mask uint32) (taken uint32, clashing []MarkUser) {
	products := slices.Clone(h.Marks.Products)
	for _, u := range h.Marks.Users {
		products = append(products, u.Owner)
	}
	set := h.setMarks(products)
	type kind struct {
		owner string
		reads bool
	}
	place := map[kind]int{}
	count := map[int]int{}
	for _, u := range h.Marks.Users {
		if lacks := u.Value &^ set; lacks != 0 {
			u.Bits = lacks
		}
		taken |= u.Bits
		if u.Bits&mask == 0 {
			continue
		}
		k := kind{u.Owner, u.Reads}
		at, known := place[k]
		if !known {
			at, place[k] = len(clashing), len(clashing)
			clashing = append(clashing, MarkUser{Owner: u.Owner, Reads: u.Reads, Rule: shortened(u.Rule)})
		}
		clashing[at].Bits |= u.Bits
		count[at]++
	}
	for at, n := range count {
		if n > 1 {
			clashing[at].Rule += fmt.Sprintf(" and %d more", n-1)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(productBits)) {
		if slices.Contains(products, name) {
			taken |= productBits[name]
			if productBits[name]&mask != 0 {
				clashing = append(clashing, MarkUser{Owner: name, Bits: productBits[name]})
			}
		}
	}
	return taken, clashing
}

// setMarks returns the bits that other users may set.
func (h Host) setMarks(products []string) (bits uint32) {
	for _, u := range h.Marks.Users {
		if !u.Reads {
			bits |= u.Bits
		}
	}
	for _, name := range products {
		bits |= productBits[name]
	}
	return bits
}

func shortened(rule string) string {
	if letters := []rune(rule); len(letters) > longestRule {
		return string(letters[:longestRule]) + "…"
	}
	return rule
}

// clash says what happens to Weir's bits.
func (u MarkUser) clash(mask plan.Mask) string {
	both := fmt.Sprintf("%#x of Weir's bits %#x", u.Bits&uint32(mask), uint32(mask))
	switch {
	case u.Rule == "":
		return fmt.Sprintf("%s is here, which may use %s", u.Owner, both)
	case u.Reads:
		return fmt.Sprintf("compares %s, so it may not fit a packet that Weir has marked: %s", both, u.Rule)
	}
	return fmt.Sprintf("writes %s, which packets without a seal (docs/qdisc.md) need for their class: %s", both, u.Rule)
}

// others says which bits have other users.
func others(taken uint32) string {
	if taken == 0 {
		return ""
	}
	return fmt.Sprintf(" (others use %#x)", taken)
}

// remedy says what to do about a clash; taken are the bits of all users.
func (u MarkUser) remedy(taken uint32) string {
	if u.Owner == "cilium" && u.Rule == "" {
		return "no mark_mask helps where Cilium assigns the whole mark, which it does to packets of pods that it passes to the host's routing: they keep their class, by the seal (docs/qdisc.md), but not the queue that the pod's own rules name. Leave it out, if no workload has queues"
	}
	return markRemedy(taken)
}

// markRemedy names the longest run of bits that no rule on this host uses.
func markRemedy(taken uint32) string {
	free := longestRun(^taken)
	if free.Check() != nil {
		return "give the rule a mask (MARK --set-xmark VALUE/MASK, meta mark set meta mark and ... or ...); no run of bits is free for mark_mask in weir.yaml, which can be left out"
	}
	return fmt.Sprintf("leave mark_mask out of weir.yaml, where nothing needs it (docs/qdisc.md, the seal); else give the rule a mask, or Weir other bits: mark_mask: %#x in weir.yaml, enough for %d workloads at once", uint32(free), free.MaxClasses()-1)
}

// longestRun returns the longest run of bits that are set, the highest of several, and no
// longer than what all classes need.
func longestRun(set uint32) plan.Mask {
	enough := 1
	for plan.Mask(1<<enough-1).Check() != nil || plan.Mask(1<<enough-1).MaxClasses() < plan.MaxClasses {
		enough++
	}
	for width := enough; width > 0; width-- {
		for shift := 32 - width; shift >= 0; shift-- {
			if run := uint32(1<<width-1) << shift; set&run == run {
				return plan.Mask(run)
			}
		}
	}
	return 0
}

// productOf says which product's device this is, "" for any other.
func productOf(device string) string {
	switch {
	case strings.HasPrefix(device, "cali"), device == "vxlan.calico", device == "bpfin.cali":
		return "calico"
	case device == "cilium_host", device == "cilium_net":
		return "cilium"
	case device == "kube-ipvs0":
		return "kube-proxy"
	}
	return ""
}
