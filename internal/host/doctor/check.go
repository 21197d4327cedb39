// SPDX-License-Identifier: Apache-2.0

package doctor

// Level is the severity of a check's result.
type Level string

// The levels. Unknown is the level of a part that Look could not read.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Fails   Level = "fails"
	Unknown Level = "unknown"
)

// Finding is the result of one check: a line of weir doctor.
type Finding struct {
	Level  Level  `json:"level"`
	Check  string `json:"check"`
	Seen   string `json:"seen"`
	Remedy string `json:"remedy,omitempty"` // empty if nothing has to be done
}

// checks are all checks, in the order in which they are printed. Each returns at
// least one finding and leaves its name to Examine.
var checks = []struct {
	name    string
	examine func(Host) []Finding
}{
	{"kernel", kernel},
	{"BPF qdisc", bpfQdisc},
	{"BTF", btf},
	{"JIT", jit},
	{"fallback", fallback},
	{"configuration", configuration},
	{"link", links},
	{"mark", marks},
	{"flowtable", offloaded},
	{"engine", engines},
	{"CRIU", criu},
	{"clock", clock},
	{"cgroups", cgroups},
	{"limits", limits},
	{"disk", disks},
	{"agent", agent},
}

// Examine judges a host: one or more findings for each check.
func Examine(h Host) []Finding {
	var all []Finding
	for _, c := range checks {
		for _, f := range c.examine(h) {
			f.Check = c.name
			all = append(all, f)
		}
	}
	return all
}

// Count returns the number of findings with the level.
func Count(findings []Finding, level Level) int {
	n := 0
	for _, f := range findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

func ok(seen string) []Finding { return []Finding{{Level: OK, Seen: seen}} }

func warning(seen, remedy string) []Finding {
	return []Finding{{Level: Warning, Seen: seen, Remedy: remedy}}
}

func fails(seen, remedy string) []Finding {
	return []Finding{{Level: Fails, Seen: seen, Remedy: remedy}}
}

// unknown says why something could not be looked at.
func unknown(what string, err error) []Finding {
	return []Finding{{Level: Unknown, Seen: what + ": " + err.Error(), Remedy: remedyFor(err)}}
}
