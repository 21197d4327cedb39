// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// AddOption changes how a namespace or a device is added.
type AddOption int

// Wait lets a caller add an object that does not exist yet; its workload has no devices
// until it does.
const Wait AddOption = iota

var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// checkName refuses a workload's name that would be hard to type or to print.
func checkName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("workload name %q: use letters, digits, '_', '.' and '-', beginning with a letter or digit, at most 128", name)
	}
	return nil
}

// errTaken returns the answer to a name that is in use.
func errTaken(name, what string) error {
	return fmt.Errorf("workload %q is attached already, to %s: detach it first, or use another name", name, what)
}

// errUnattached returns the answer to a name that is not in use.
func errUnattached[T any](name string, attached map[string]T) error {
	return fmt.Errorf("no workload %q is attached; attached: %s", name, enumerate(slices.Sorted(maps.Keys(attached))))
}

// enumerate prints names for an error message, not more than fit on a line or two.
func enumerate(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// poke wakes a source's loop unless it is to wake up anyway.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
