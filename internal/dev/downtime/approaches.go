// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/lab/cluster"
)

func (p *page) approaches(events []cluster.Event) {
	p.Line("\n## Figure 8: the approaches\n\nSeconds to bring the file system over, and megabytes that were sent for it: approach 1 exports all of it; approach 2 with the\nimage's layers neither in the registry nor on the target, and with them; and the changed layer alone. Absent layers travel twice.\nWhat goes before the container is frozen costs no downtime here.\n\n![C-Balancer, figure 8: time to bring the file system over, by image](migration-approaches.svg)\n")
	if len(events) == 0 {
		p.Line("Missing: `lab/c-balancer/fig07.yaml` was not run.")
		return
	}
	p.Numbers("image", "1: export", "2: layers absent", "2: layers present", "layer")
	for _, image := range images(events) {
		row := []string{image}
		for _, how := range hows {
			cell := ""
			for _, e := range events {
				if e.Label == image+" "+how {
					d, bytes := files(e)
					cell = fmt.Sprintf("%s s, %s MB", seconds(d), megabytes(bytes))
				}
			}
			row = append(row, cell)
		}
		p.Row(row...)
	}
	slower := func(one, other string) func(string) bool {
		return func(image string) bool {
			a, b := labelled(events, image+" "+one), labelled(events, image+" "+other)
			if a == nil || b == nil {
				return false
			}
			long, _ := files(*a)
			short, _ := files(*b)
			return long > short
		}
	}
	p.Line("")
	p.claim("As in the paper, approach 2 is the slowest while layers are absent.", exceptions(images(events), slower("absent", "export")))
	p.claim("As in the paper, approach 2 is faster than approach 1 once they are there.", exceptions(images(events), slower("export", "present")))
	p.Line("\nEvery container changed 20 MB, which approach 2 sends twice, to the registry and from it. Where the image has no more than that, approach 1 sends no more bytes and has fewer steps.\n")
	p.claim("The changed layer alone is the fastest.", exceptions(images(events), slower("present", "layer")))
}

var hows = []string{"export", "absent", "present", "layer"}

// files returns the time and the bytes that the transfer of the file system took.
func files(e cluster.Event) (time.Duration, int64) {
	return took(e, "push-image", "pull-image", "commit", "push", "pull", "send image", "send export", "send layer")
}

func images(events []cluster.Event) (list []string) {
	for _, e := range events {
		image, _, _ := strings.Cut(e.Label, " ")
		if !slices.Contains(list, image) {
			list = append(list, image)
		}
	}
	return list
}
