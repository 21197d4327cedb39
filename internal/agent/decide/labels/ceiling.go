// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/config"
	"weir/internal/discover"
	"weir/internal/policy"
	"weir/internal/policy/texts"
)

// What labels may say. A user who may start a container writes its labels, and the author
// of an image writes those that every container made of it has. So
//
//   - labels that come with an image count only with `labels: {images: true}`,
//   - of the others those that `labels: {allow: [...]}` names,
//   - and none above what weir.yaml or `weir set` gives: max, min, reserve and the
//     limits are ceilings, as is the burst above a max, and a group that is given stays.
//
// A label that does not count is left out, with a sentence in the workload's note; the
// others hold.

// Rules say what labels may say on a host.
type Rules struct {
	Labels config.Labels
	Links  []config.Link
	Kept   *texts.Kept // what was read before; nil = nothing
}

// Read returns what the labels of a workload say and may say beside what the administrator
// gives, and a sentence for each that does not count.
func (r Rules) Read(found discover.Workload, admin policy.Change) (layer policy.Change, problems []string) {
	labels, problems := r.ofContainer(found)
	layer, unread := r.labelLayer(labels, found.Oversize)
	problems = append(problems, unread...)
	for _, field := range layer.Given() {
		if !r.Labels.Allows(field) {
			layer = layer.Without(field)
			problems = append(problems, fmt.Sprintf("label %s does not count: labels may not say %s here; allow it in weir.yaml, labels: {allow: [..., %[2]s]}, or use weir set",
				labelOf(field), strings.TrimPrefix(field, "ingress.")))
		}
	}
	c := ceiling{admin: admin, links: r.Links}
	layer = c.lower(layer, policy.Egress, !r.Labels.Allows("dscp"))
	return layer, append(problems, c.problems...)
}

// ofContainer returns the labels without those that the image has given to the container.
func (r Rules) ofContainer(found discover.Workload) (labels map[string]string, problems []string) {
	if r.Labels.Images {
		return found.Labels, nil
	}
	labels = maps.Clone(found.Labels)
	var baked []string
	for _, label := range slices.Sorted(maps.Keys(found.ImageLabels)) {
		if value, has := labels[label]; has && value == found.ImageLabels[label] && slices.Contains(knownLabels, label) {
			delete(labels, label)
			baked = append(baked, label)
		}
	}
	if len(baked) > 0 {
		problems = append(problems, fmt.Sprintf("labels %s do not count: they come with the image; give them to the container, or allow those of images in weir.yaml, labels: {images: true}", strings.Join(baked, ", ")))
	}
	return labels, problems
}

// labelOf returns the label for a field: "weir.limit-packets" for "limit_packets".
func labelOf(field string) string { return knownLabels[slices.Index(fields, field)] }

// ceiling holds labels to what the administrator gives.
type ceiling struct {
	admin    policy.Change
	links    []config.Link
	problems []string
}

// lower returns the layer without its parts above the ceiling, in one direction.
func (c *ceiling) lower(l policy.Change, direction policy.Direction, noDSCP bool) policy.Change {
	prefix := ""
	if direction == policy.Ingress {
		prefix = "ingress."
	}
	admin := c.admin
	refuse := func(field, value, theirs string) {
		l = l.Without(field)
		c.refuse(prefix+field, value, cmp.Or(theirs, "none"), field)
	}
	asked, given := l.To(), admin.To()
	both := func(field string) bool { return l.Gives(field) && admin.Gives(field) }
	amount := func(field string, asked, given policy.Amount, above func(asked, given policy.Amount) bool) {
		if both(field) && above(asked, given) {
			refuse(field, asked.Compact(), given.Compact())
		}
	}
	bounded := func(asked, given policy.Amount) bool { // none = no bound
		return !given.None() && (asked.None() || c.exceeds(direction, asked, given))
	}
	amount("max", asked.Max, given.Max, bounded)
	amount("reserve", asked.Reserve, given.Reserve, bounded)
	amount("min", asked.Min, given.Min, func(asked, given policy.Amount) bool { return c.exceeds(direction, asked, given) })
	bounds := admin.Gives("max") && !given.Max.None() || admin.Gives("burst")
	if l.Gives("burst") && bounds && asked.Burst > given.Burst {
		refuse("burst", asked.Burst.String(), admin.Texts()["burst"])
	}
	if both("limit_packets") && given.LimitPackets > 0 && asked.LimitPackets-1 > given.LimitPackets-1 {
		refuse("limit_packets", strconv.Itoa(int(asked.LimitPackets)), strconv.Itoa(int(given.LimitPackets)))
	}
	if both("limit_bytes") && given.LimitBytes > 0 && asked.LimitBytes-1 > given.LimitBytes-1 {
		refuse("limit_bytes", strconv.FormatUint(asked.LimitBytes, 10), strconv.FormatUint(given.LimitBytes, 10))
	}
	if both("group") && asked.Group != given.Group {
		refuse("group", cmp.Or(asked.Group, "none"), given.Group)
	}
	l = c.lowerFloor(l, direction, prefix)
	l = c.keepQuota(c.lowerTimes(l, direction, prefix))
	if noDSCP && l.Gives("queues") {
		l.Set("queues", func(p *policy.Policy) { p.Queues = c.withoutDSCP(l.To().Queues, prefix) })
	}
	if l.Ingress != nil {
		inner := ceiling{links: c.links}
		if admin.Ingress != nil {
			inner.admin = *admin.Ingress
		}
		l.Ingress = new(inner.lower(*l.Ingress, policy.Ingress, noDSCP))
		c.problems = append(c.problems, inner.problems...)
	}
	return l
}

// lowerFloor leaves reservations out that take more on the wire than the min, or the
// reservation, that the administrator gives: they count as a min.
func (c *ceiling) lowerFloor(l policy.Change, direction policy.Direction, prefix string) policy.Change {
	if !c.admin.Gives("min") && !c.admin.Gives("reserve") {
		return l
	}
	given := c.admin.Only("min", "reserve").Apply(policy.Default())
	tooMuch := func(l policy.Change) bool {
		asked := l.Only("reserve", "queues").Apply(policy.Default())
		return slices.ContainsFunc(c.links, func(link config.Link) bool {
			return sameWay(link, direction) && policy.WireOf(asked.Reserved(link.Capacity()), link.Overhead) > given.Floor(link.Capacity(), link.Overhead)
		})
	}
	field, theirs := "min", given.Min.Compact()
	if given.Min.None() {
		field, theirs = "reserve", given.Reserve.Compact()
	}
	if l.Gives("reserve") && tooMuch(l.Only("reserve")) {
		c.refuse(prefix+"reserve", l.To().Reserve.Compact(), theirs, field)
		l = l.Without("reserve")
	}
	if l.Gives("queues") && tooMuch(l) {
		c.refuse(prefix+"queues", "with reservations", theirs, field)
		l = l.Without("queues")
	}
	return l
}

// lowerTimes leaves out what differs at times, if any of it is above the ceiling.
func (c *ceiling) lowerTimes(l policy.Change, direction policy.Direction, prefix string) policy.Change {
	for _, then := range l.To().When {
		inner := ceiling{admin: c.admin, links: c.links}
		if inner.lower(then.To, direction, false); len(inner.problems) > 0 {
			c.problems = append(c.problems, fmt.Sprintf("label %s does not count: what it says of %s is more than the administrator gives; write less, or raise it in weir.yaml", labelOf(prefix+"when"), then.Period))
			return l.Without("when")
		}
	}
	return l
}

// keepQuota leaves a label's quota out where the administrator gives one.
func (c *ceiling) keepQuota(l policy.Change) policy.Change {
	if !l.Gives("quota") || !c.admin.Gives("quota") {
		return l
	}
	c.problems = append(c.problems, fmt.Sprintf("label %s does not count: weir.yaml or weir set gives a quota; change it there", labelOf("quota")))
	return l.Without("quota")
}

// withoutDSCP returns queues without their code points.
func (c *ceiling) withoutDSCP(queues []policy.Queue, prefix string) []policy.Queue {
	queues = slices.Clone(queues)
	for i := range queues {
		if queues[i].DSCP != nil {
			queues[i].DSCP = nil
			c.problems = append(c.problems, fmt.Sprintf("label %s: dscp does not count for queue %s: labels may not say dscp here; allow it in weir.yaml, labels: {allow: [..., dscp]}",
				labelOf(prefix+"queues"), queues[i].Name))
		}
	}
	return queues
}

// exceeds reports whether an amount is above another on any link of a direction.
func (c *ceiling) exceeds(direction policy.Direction, asked, given policy.Amount) bool {
	if asked.Percent == 0 && given.Percent == 0 {
		return asked.Rate > given.Rate
	}
	return slices.ContainsFunc(c.links, func(link config.Link) bool {
		return sameWay(link, direction) && asked.Of(link.Capacity()) > given.Of(link.Capacity())
	})
}

func (c *ceiling) refuse(field, value, theirs, by string) {
	remedy := fmt.Sprintf("write %s or less, or raise it in weir.yaml", theirs)
	if by == "group" || theirs == "none" {
		remedy = "take the label away, or change it in weir.yaml"
	}
	c.problems = append(c.problems, fmt.Sprintf("label %s %s does not count: the administrator's %s is %s; %s", labelOf(field), cmp.Or(value, "none"), by, theirs, remedy))
}

// sameWay reports whether a link's end is of a direction; Link says nothing of egress.
func sameWay(link config.Link, direction policy.Direction) bool {
	return (link.Direction == policy.Ingress) == (direction == policy.Ingress)
}
