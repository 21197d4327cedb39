// SPDX-License-Identifier: Apache-2.0

package plan

// Brief returns the changes of Diff(have, want) as a person is told of them. Several
// changes of one class, which Diff makes because the class gives its min up and takes it
// again, become one; changes of a class that then goes are left out.
func Brief(changes []Edit, have, want State) []Edit {
	last := map[ClassID]int{} // the latest change that sets the class, in told
	var told []Edit
	var over []bool // told of by a later one
	for _, c := range changes {
		switch c.Op {
		case SetClass:
			if i, ok := last[c.OldClass.ID]; ok {
				over[i] = true
				c = setClass(*told[i].OldClass, *c.NewClass, have, want)
			}
			last[c.NewClass.ID] = len(told)
		case RemoveClass:
			if i, ok := last[c.OldClass.ID]; ok {
				over[i] = true
				delete(last, c.OldClass.ID)
			}
		}
		told, over = append(told, c), append(over, false)
	}
	var brief []Edit
	for i, c := range told {
		if !over[i] && !(c.Op == SetClass && c.OldClass.Equal(*c.NewClass)) {
			brief = append(brief, c)
		}
	}
	return brief
}
