// SPDX-License-Identifier: Apache-2.0

package main

const arm64Head = `# The same on arm64

Written by ` + "`make figures`" + ` from [data](data); edits are lost. The board of the qCon paper is a Raspberry Pi. Two of its experiments,
[as on amd64](qcon.md), on an emulated CPU of that sort.

* **Kernel**: %s, Debian's, in a virtual machine of ` + "`vm/run --arch arm64`" + `, one for each run. **Commit**: %s. **Measured**: %s.
* **Virtual time**: one instruction of the machine is one nanosecond of its clock. A figure says how much work was done, not
  how long a given board takes for it.
* **One run again**: ` + "`vm/run --arch arm64 -- weir lab run --scheduler fair,qcon lab/qcon/fig11.yaml`" + `
* **Rates** are wire bits (Ethernet headers included) that arrive at the receiver, in Mbit/s, without each case's first
  second. **Contract** is what Weir promises: ` + "`min(max, max(min, L * weight))`" + `, with L such that the link is full.
  **Error** is measured less contract, in percent of the link.
`

const arm64Summary = `Per experiment the largest error of any rate in any case, in percent of the link. The bars are the
` + "`expect`" + ` entries of the scenario files, the same for both processors.`

// arm64 shows two experiments of the qCon paper on that processor.
var arm64 = paper{
	name: "arm64", lab: "qcon", arch: "arm64", own: "qcon", beside: []string{"htb"}, tool: "netperf", head: arm64Head, summary: arm64Summary,
	sections: []section{
		figure{"fig11", "Figure 11: weight, min and max together",
			`Weights 1:2:3; then a min of 30 for c1; then also a max of 15 for c3.`,
			`The same arithmetic on the same counters: a processor decides how long a packet takes, not whose turn it is.`, []claim{
				within("The contract holds with fair.", "fig11-fair", 0.01),
				within("And with qcon.", "fig11-qcon", 0.03)}},
		cpu{title: "Figure 12: CPU time", did: cpuText, why: `Columns can be compared with each other. Instructions of arm64 are not those of amd64, so the two pages cannot.`,
			who: "containers", scenario: "fig12", none: "fig12-none", others: []string{"fair", "qcon", "htb"}, claims: []claim{
				ordered("The paper's order, qCon below no scheduler below HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-none-none", "fig12-htb"),
				ordered("Fair is between qcon and HTB.", cpuOf, "%", 100, "fig12-qcon", "fig12-fair", "fig12-htb")}},
	},
}
