// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// CostResult is a cost measurement.
type CostResult struct {
	Name    string    `json:"name"`
	Packets int       `json:"packets"`
	Size    int       `json:"size"`
	Rows    []CostRow `json:"rows"`
	// Stopped is why the measurement ended before its last row; "" = it has all rows.
	Stopped string `json:"stopped,omitempty"`
}

// CostRow is the cost of one packet with one scheduler in one case. In virtual
// time a nanosecond is an instruction.
type CostRow struct {
	// Case is "veths" (five workloads with namespaces and marking programs of
	// their own), "inside" (the same, with four flows each, and a queue for each
	// where the scheduler has queues), "full" (inside, and packets wait in all
	// queues), or one of three in which one program marks for any number: "all" send,
	// "one" sends, "throttled" (all send, and their queues are full).
	Case        string  `json:"case"`
	Scheduler   string  `json:"scheduler"`
	Backend     string  `json:"backend"`
	Workloads   int     `json:"workloads"` // configured
	Active      int     `json:"active"`    // that send
	NsPerPacket float64 `json:"ns_per_packet"`
	BaseNs      float64 `json:"base_ns"`   // the same without scheduler and marking
	Delivered   float64 `json:"delivered"` // packets that arrived, as a share of those offered meanwhile
	// Functions are where the time goes, the most first; nil = not measured.
	Functions []Function `json:"functions,omitempty"`
	// Problem is why the row has no figures; "" = it was measured.
	Problem string `json:"problem,omitempty"`
}

// Function is a function of the kernel, or of a BPF program, that a packet's way leads through.
type Function struct {
	Name        string  `json:"name"` // as in /proc/kallsyms; of a BPF program without its tag, and with " (BPF)"
	NsPerPacket float64 `json:"ns_per_packet"`
}

// Added is the time per packet that scheduler and marking add.
func (r CostRow) Added() float64 { return r.NsPerPacket - r.BaseNs }

// Problems returns a line for each row that was not measured, and one for a measurement
// that ended early.
func (c *CostResult) Problems() (list []string) {
	for _, r := range c.Rows {
		if r.Problem != "" {
			list = append(list, fmt.Sprintf("case %s, %s with %d workloads: not measured: %s", r.Case, r.Scheduler, r.Workloads, r.Problem))
		}
	}
	if c.Stopped != "" {
		list = append(list, "not measured: "+c.Stopped)
	}
	return list
}

// CostJSON writes a line per row; one that was not measured has its problem instead of figures.
func CostJSON(out io.Writer, c *CostResult) error {
	enc := json.NewEncoder(out)
	for _, r := range c.Rows {
		if r.Problem != "" {
			if err := enc.Encode(struct {
				Scenario  string `json:"scenario"`
				Case      string `json:"case"`
				Scheduler string `json:"scheduler"`
				Backend   string `json:"backend"`
				Workloads int    `json:"workloads"`
				Active    int    `json:"active"`
				Problem   string `json:"problem"`
			}{c.Name, r.Case, r.Scheduler, r.Backend, r.Workloads, r.Active, r.Problem}); err != nil {
				return err
			}
			continue
		}
		line := struct {
			Scenario string `json:"scenario"`
			CostRow
			Added   float64  `json:"added_ns"`
			OfHTB   *float64 `json:"of_htb"`
			Packets int      `json:"packets"`
			Size    int      `json:"size"`
		}{c.Name, r, r.Added(), c.ofHTB(r), c.Packets, c.Size}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// ofHTB is a row's added cost as a share of HTB's in the same case.
func (c *CostResult) ofHTB(r CostRow) *float64 {
	for _, h := range c.Rows {
		if h.Scheduler == "htb" && h.Case == r.Case && h.Workloads == r.Workloads && h.Added() > 0 {
			v := r.Added() / h.Added()
			return &v
		}
	}
	return nil
}

var caseTitles = map[string]string{
	"veths":     "five workloads, each with its own veth and marking program, all sending",
	"inside":    "inside a workload: five workloads as above, each with four flows, and where there are queues each has its own",
	"full":      "inside a workload, full frames on a link that is full (CPU time per packet sent)",
	"all":       "growth: all workloads send",
	"one":       "growth: one workload sends",
	"throttled": "growth: all workloads send full frames on a link that is full (CPU time per packet sent)",
}

// CostTable writes the rows for people, case by case.
func CostTable(out io.Writer, c *CostResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nframes of %d bytes (full ones where throttled), %d packets; added = over no scheduler and no marking.\n"+
		"In virtual time 1 ns is 1 instruction.\n", c.Name, c.Size, c.Packets)
	for _, name := range []string{"veths", "inside", "full", "all", "one", "throttled"} {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		some := false
		for _, r := range c.Rows {
			if r.Case != name {
				continue
			}
			if !some {
				fmt.Fprintf(&b, "\n%s\n", caseTitles[name])
				fmt.Fprintln(t, "scheduler\tworkloads\tns/packet\tadded\tof htb's\tdelivered\t")
				some = true
			}
			if r.Problem != "" {
				fmt.Fprintf(t, "%s\t%d\t-\t-\t-\t-\t  not measured: %s\n", r.Scheduler, r.Workloads, r.Problem)
				continue
			}
			fmt.Fprintf(t, "%s\t%d\t%.0f\t%+.0f\t%s\t%.1f %%\t\n", r.Scheduler, r.Workloads, r.NsPerPacket, r.Added(),
				optional(c.ofHTB(r), number(2)), r.Delivered*100)
		}
		_ = t.Flush() // into memory
	}
	if c.Stopped != "" {
		fmt.Fprintf(&b, "\nnot measured: %s\n", c.Stopped)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
