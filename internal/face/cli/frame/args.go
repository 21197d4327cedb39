// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// AsGroup makes a command a group of others: alone it prints its help, and with an
// unknown word it names the nearest command.
func AsGroup(c *cobra.Command) {
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c.SuggestionsMinimumDistance = 2
		remedy := c.CommandPath() + " --help lists the commands"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			remedy = fmt.Sprintf("did you mean %s %s?", c.CommandPath(), strings.Join(near, " or "))
		}
		return Usagef("unknown command %q; %s", args[0], remedy)
	}
}

// Names returns a check of how many arguments a command takes; each is named, an optional
// one in brackets as in the usage line.
func Names(args ...string) cobra.PositionalArgs {
	required := 0
	for _, arg := range args {
		if !strings.HasPrefix(arg, "[") {
			required++
		}
	}
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < required:
			return Usagef("%s is missing; write: %s", args[len(given)], c.UseLine())
		case len(given) > len(args):
			return Usagef("argument %q is one too many; write: %s", given[len(args)], c.UseLine())
		}
		for i, text := range given {
			if err := checkArgument(c, strings.Trim(args[i], "[]"), text); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkArgument refuses what nothing can be called: an empty text, as a variable of a
// shell that is not set leaves behind, and the dots that lead elsewhere in a path.
func checkArgument(c *cobra.Command, name, text string) error {
	switch {
	case text == "":
		return Usagef("%s is empty; write: %s", name, c.UseLine())
	case name == "NAME" && (text == "." || text == ".."):
		return Usagef("%s %q: cannot be a name; weir get lists those that there are", name, text)
	}
	return nil
}
