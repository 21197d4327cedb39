// SPDX-License-Identifier: Apache-2.0

package yamltree

import "strings"

// Levels returns how many lists and mappings in each other a text has at its deepest. It looks
// at each byte once, and knows YAML as policies are written:
// brackets, indentation, "- ", "? " and "key: ". Of what is no YAML it may say too much. It
// may miss levels in forms of writing that confuse quotes; Parse counts those in the tree.
func Levels(text string) int {
	var n nesting
	for text != "" {
		line := text
		if end := strings.IndexAny(text, "\r\n"); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = ""
		}
		n.line(line)
	}
	return n.deepest
}

// nesting is what Levels knows of the text before a line.
type nesting struct {
	columns []column // of block lists and mappings that are open
	flow    int      // brackets that are open
	quote   byte     // that is open; 0 = none
	deepest int
}

// column is where the entries of a block list or mapping stand.
type column struct {
	at   int
	list bool
}

func (n *nesting) line(line string) {
	if n.flow == 0 && n.quote == 0 {
		line = n.indicators(line)
	}
	before := byte(0) // the last character that is no blank; 0 = none
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case n.quote != 0:
			if c == '\\' && n.quote == '"' || c == '\'' && n.quote == c && strings.HasPrefix(line[i+1:], "'") {
				i++
			} else if c == n.quote {
				n.quote = 0
			}
		case (c == '"' || c == '\'') && (strings.IndexByte("[{,:-?", before) >= 0 || before == 0):
			n.quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return
		case c == '[' || c == '{':
			n.flow++
			n.deepest = max(n.deepest, len(n.columns)+n.flow)
		case (c == ']' || c == '}') && n.flow > 0:
			n.flow--
		}
		if c != ' ' && c != '\t' {
			before = c
		}
	}
}

// indicators opens and closes the block lists and mappings of a line, and returns the line
// behind its indicators.
func (n *nesting) indicators(line string) string {
	at := 0
	for {
		for at < len(line) && line[at] == ' ' {
			at++
		}
		rest := line[at:]
		if rest == "" || rest[0] == '#' {
			return ""
		}
		if (rest[0] == '-' || rest[0] == '?') && (len(rest) == 1 || rest[1] == ' ' || rest[1] == '\t') {
			n.open(column{at, rest[0] == '-'})
			at++
			continue
		}
		if rest[0] != '[' && rest[0] != '{' && (strings.Contains(rest, ": ") || strings.Contains(rest, ":\t") || strings.HasSuffix(rest, ":")) {
			n.open(column{at, false})
		}
		return rest
	}
}

// open closes what stands further to the right and opens a list or mapping at a column, unless
// it is open. A list may stand at the column of the key that it is the value of.
func (n *nesting) open(c column) {
	last := len(n.columns) - 1
	for ; last >= 0; last-- {
		if top := n.columns[last]; top.at < c.at || top == c || top.at == c.at && c.list {
			break
		}
	}
	if n.columns = n.columns[:last+1]; last < 0 || n.columns[last] != c {
		n.columns = append(n.columns, c)
	}
	n.deepest = max(n.deepest, len(n.columns)+n.flow)
}
