// SPDX-License-Identifier: Apache-2.0

package doccommand

import (
	"regexp"
	"strings"
)

// Command is a command that a page shows.
type Command struct {
	Line   int      // of the page, from 1
	Text   string   // for a shell, without prompt, "sudo" and comment
	Output []string // what the page shows below it; nil = nothing
}

const (
	indent = "    "
	arrow  = "►" // of a picture
)

// programs begin a command. Other lines of blocks are output, pictures or formulas.
var programs = regexp.MustCompile(`^(weir|weirc|alias|source|bin/weir|make|docker|podman|systemctl|systemd-[a-z]+|journalctl|usermod|userdel|apt|git|rm|install|grep|tc|ip|bpftool|nsenter|ovs-vsctl|kafka-acls\.sh|curl|go|CGO_ENABLED=0|clang-19|vm/run|scripts/[a-z-]+)( |$)`)

// comment ends a command: in documentation a comment stands apart from it.
var comment = regexp.MustCompile(`\s+#\s.*$`)

// Line is one line of a page.
type Line struct {
	Number int // from 1
	Text   string
}

// Parse returns the commands of a page in their order.
func Parse(page string) []Command { return read(page).list }

// Others returns what else the blocks of a page hold, the first line of each stretch:
// pictures, formulas, parts of files, output without its command.
func Others(page string) []Line { return read(page).others }

func read(page string) *parser {
	p := &parser{}
	fence := "" // the kind of the fenced block that this is, with its backquotes
	for number, line := range strings.Split(page, "\n") {
		if kind := strings.TrimSpace(line); strings.HasPrefix(kind, "```") {
			if fence == "" {
				fence = kind
			} else {
				fence = ""
			}
			p.end()
			continue
		}
		text, indented := strings.CutPrefix(line, indent)
		switch {
		case shell[fence]:
			p.take(number+1, line)
		case fence == "" && indented:
			p.take(number+1, text)
		case fence == "" && strings.TrimSpace(line) != "":
			p.end()
		}
	}
	p.end()
	return p
}

// shell are the kinds of fenced blocks that are read; others are files.
var shell = map[string]bool{"```": true, "```sh": true, "```bash": true, "```console": true}

type parser struct {
	list      []Command
	others    []Line
	current   *Command
	prompted  bool // the block's commands have a prompt
	continued bool // the last line ended with a backslash, or within single quotes
	other     bool // the last line belongs to no command
}

// end ends the block.
func (p *parser) end() {
	if p.current != nil {
		p.list = append(p.list, *p.current)
	}
	p.current, p.prompted, p.continued, p.other = nil, false, false, false
}

func (p *parser) take(number int, line string) {
	if p.continued {
		p.append(" " + strings.TrimSpace(line))
		return
	}
	text, prompted := strings.CutPrefix(strings.TrimLeft(line, " "), "$ ")
	if !prompted {
		text = line
	}
	text = strings.TrimPrefix(text, "sudo ")
	switch {
	case programs.MatchString(text) && (prompted || !p.prompted) && !strings.Contains(text, arrow):
		p.end()
		p.current, p.prompted = &Command{Line: number}, prompted
		p.append(text)
	case p.current != nil && (p.prompted || strings.HasPrefix(line, "weir: ")):
		p.current.Output = append(p.current.Output, line)
	case strings.TrimSpace(line) == "", strings.HasPrefix(line, "# "):
	case !p.other:
		p.others = append(p.others, Line{number, line})
		p.other = true
	}
}

// append adds a line to the current command.
func (p *parser) append(text string) {
	text = comment.ReplaceAllString(text, "")
	text, p.continued = strings.CutSuffix(strings.TrimRight(text, " "), `\`)
	p.current.Text += strings.TrimRight(text, " ")
	p.continued = p.continued || strings.Count(p.current.Text, "'")%2 == 1
}
