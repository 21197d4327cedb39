// SPDX-License-Identifier: Apache-2.0

package doccommand

import (
	"regexp"
	"strings"
)

// Command is one that a page shows.
type Command struct {
	Line   int      // of the page, from 1
	Text   string   // for a shell, without prompt, "sudo" and comment
	Output []string // what the page shows below it; nil = nothing
}

const (
	indent = "    "
	arrow  = "►" // of a picture
)

// programs begin a command. Other lines of indented blocks are output, pictures
// or formulas.
var programs = regexp.MustCompile(`^(weir|make|docker|podman|systemctl|systemd-[a-z]+|journalctl|usermod|userdel|apt|git|rm|tc|ip|bpftool|nsenter|ovs-vsctl|curl|go|vm/run|scripts/[a-z-]+)( |$)`)

// comment ends a command: in documentation a comment stands apart from it.
var comment = regexp.MustCompile(`\s+#\s.*$`)

// Parse returns the commands of a page in their order.
func Parse(page string) (list []Command) {
	p := parser{}
	fenced := false
	for number, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			p.end()
			continue
		}
		text, indented := strings.CutPrefix(line, indent)
		if fenced || !indented {
			if fenced || strings.TrimSpace(line) != "" {
				p.end()
			}
			continue
		}
		p.take(number+1, text)
	}
	p.end()
	return p.list
}

type parser struct {
	list      []Command
	current   *Command
	prompted  bool // the block's commands have a prompt
	continued bool // the last line ended with a backslash
}

// end ends the block.
func (p *parser) end() {
	if p.current != nil {
		p.list = append(p.list, *p.current)
	}
	p.current, p.prompted, p.continued = nil, false, false
}

func (p *parser) take(number int, line string) {
	if p.continued {
		p.append(" " + strings.TrimSpace(line))
		return
	}
	text, prompted := strings.CutPrefix(line, "$ ")
	text = strings.TrimPrefix(text, "sudo ")
	switch {
	case programs.MatchString(text) && (prompted || !p.prompted) && !strings.Contains(text, arrow):
		p.end()
		p.current, p.prompted = &Command{Line: number}, prompted
		p.append(text)
	case p.current != nil && (p.prompted || strings.HasPrefix(line, "weir: ")):
		p.current.Output = append(p.current.Output, line)
	}
}

// append adds a line to the current command.
func (p *parser) append(text string) {
	text = comment.ReplaceAllString(text, "")
	text, p.continued = strings.CutSuffix(strings.TrimRight(text, " "), `\`)
	p.current.Text += strings.TrimRight(text, " ")
}
