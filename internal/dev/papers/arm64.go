// SPDX-License-Identifier: Apache-2.0

package main

// arm64 shows two experiments of the qCon paper on that processor.
var arm64 = paper{
	name: "arm64", lab: "qcon", arch: "arm64", own: "qcon", beside: []string{"htb"}, tool: "netperf", head: prose("arm64"), summary: prose("arm64-summary"),
	sections: []section{
		figure{"fig11", "Figure 11: weight, min and max together",
			`Weights 1:2:3; then a min of 30 for c1; then also a max of 15 for c3.`,
			`The same arithmetic on the same counters: a processor decides how long a packet takes, not whose turn it is.`, []claim{
				within("The contract holds with fair.", "fig11-fair", 0.01),
				within("And with qcon.", "fig11-qcon", 0.03)}},
		cpu{title: "Figure 12: CPU time", did: prose("qcon-cpu"), why: `Columns can be compared with each other. Instructions of arm64 are not those of amd64, so the two pages cannot.`,
			who: "containers", scenario: "fig12", none: "fig12-none", others: []string{"fair", "qcon", "htb"}, claims: []claim{
				ordered("The paper's order, qCon below no scheduler below HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-none-none", "fig12-htb"),
				ordered("Fair is between qcon and HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-fair", "fig12-htb")}},
	},
}
