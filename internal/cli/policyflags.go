// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/policy"
)

// policyFlags are the flags that make a PolicyChange. Values are checked here
// as well as by the agent: a typing error is then found without one.
type policyFlags struct {
	change api.PolicyChange
}

func (p *policyFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.Var(weightFlag{&p.change.Weight}, "weight", "how much it counts beside others, 1 to "+strconv.Itoa(policy.MaxWeight))
	fs.Var(amountFlag{&p.change.Min}, "min", "rate it always gets when it wants it: 20mbit, 25%, or none")
	fs.Var(amountFlag{&p.change.Max}, "max", "rate it never exceeds: 20mbit, 25%, or none")
	fs.Var(countFlag[uint32]{&p.change.LimitPackets}, "limit-packets", "how many packets may wait, 0 for the default")
	fs.Var(countFlag[uint64]{&p.change.LimitBytes}, "limit-bytes", "how many bytes may wait, 0 for the default")
	for _, name := range []string{"weight", "min", "max", "limit-packets", "limit-bytes"} {
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

type weightFlag struct{ to **uint32 }

func (f weightFlag) String() string { return "" }
func (f weightFlag) Type() string   { return "N" }
func (f weightFlag) Set(s string) error {
	w, err := policy.ParseWeight(s)
	if err == nil {
		*f.to = &w
	}
	return err
}

// amountFlag keeps the text, since a percentage means something only to the
// agent, which knows the links.
type amountFlag struct{ to **string }

func (f amountFlag) String() string { return "" }
func (f amountFlag) Type() string   { return "RATE|none" }
func (f amountFlag) Set(s string) error {
	amount, err := policy.ParseAmount(s)
	if err != nil {
		return err
	}
	text := amount.Compact()
	if amount.None() {
		text = "none"
	}
	*f.to = &text
	return nil
}

type countFlag[T uint32 | uint64] struct{ to **T }

func (f countFlag[T]) String() string { return "" }
func (f countFlag[T]) Type() string   { return "N" }
func (f countFlag[T]) Set(s string) error {
	bits := 64
	if _, small := any(T(0)).(uint32); small {
		bits = 32
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, bits)
	if err != nil {
		return &policy.Error{Value: s, Msg: "not a whole number", Remedy: "write how many may wait, 0 for the default"}
	}
	v := T(n)
	*f.to = &v
	return nil
}

var (
	_ pflag.Value = weightFlag{}
	_ pflag.Value = amountFlag{}
	_ pflag.Value = countFlag[uint32]{}
)
