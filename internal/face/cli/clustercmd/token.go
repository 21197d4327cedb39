// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

func (a Commands) managerTokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Tokens by which nodes join"}
	frame.AsGroup(c)
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a Commands) tokenCreateCommand() *cobra.Command {
	var ttl time.Duration
	var req api.TokenRequest
	uses := TokenUses(1)
	c := a.Printing(&cobra.Command{
		Use:   "create",
		Short: "Make a token by which nodes can join",
		Long: `Make a token. A host that has it can become a node until it expires or is used: pass it
on like a password. It is shown once; the manager keeps only a hash of it. It is for one node
unless --uses says otherwise; a node that did not get the answer may use it again.`,
		Example: `  weir manager token create
  weir manager token create --uses 5
  weir manager token create --ttl 10m --node gateway-7`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if ttl <= 0 {
				return frame.Usagef("--ttl %v: not a duration above 0; write one such as 24h", ttl)
			}
			req.TTLSeconds, req.Uses = ttl.Seconds(), int(uses)
			t, err := a.ManagerClient().NewToken(c.Context(), req)
			if err != nil {
				return err
			}
			return a.Print(t, func() string { return t.Token + "\n" })
		},
	})
	c.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how `LONG` it may be used")
	c.Flags().Var(&uses, "uses", "`NUMBER` of nodes that may join by it, or unlimited")
	c.Flags().StringVar(&req.Node, "node", "", "`NAME` of the only node that may use it (default any)")
	a.ManagerSocketFlag(c)
	return c
}

// TokenUses is the number of nodes that may join by a token, as a flag.
type TokenUses int

// String implements pflag.Value.
func (u TokenUses) String() string {
	if u == api.AnyNumber {
		return "unlimited"
	}
	return strconv.Itoa(int(u))
}

// Set implements pflag.Value.
func (u *TokenUses) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "unlimited":
		n = api.AnyNumber
	case err != nil || n < 1:
		return errors.New("write a number of nodes, 1 or more, or unlimited")
	}
	*u = TokenUses(n)
	return nil
}

// Type implements pflag.Value.
func (TokenUses) Type() string { return "number" }

// Nodes returns the nodes that may use the token, as text.
func (u TokenUses) Nodes() string {
	switch u {
	case api.AnyNumber:
		return "any number of nodes"
	case 1:
		return "one node"
	}
	return u.String() + " nodes"
}

func (a Commands) tokenListCommand() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: `  weir manager token list`,
		Args:    frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.ManagerClient().Tokens(c.Context())
			if err != nil {
				return err
			}
			return a.Print(list, func() string { return renderTokens(list, time.Now()) })
		},
	})
	a.ManagerSocketFlag(c)
	return c
}

func renderTokens(list []api.Token, now time.Time) string {
	if len(list) == 0 {
		return "no tokens; weir manager token create makes one\n"
	}
	t := table.New("TOKEN", "NODE", "EXPIRES", ">JOINED", ">OF")
	for _, k := range list {
		expires := "in " + human.Age(k.Expires.Sub(now))
		if !now.Before(k.Expires) {
			expires = "expired " + human.Age(now.Sub(k.Expires)) + " ago"
		}
		t.Add(k.ID, cmp.Or(k.Node, "any"), expires, strconv.Itoa(k.Joined), TokenUses(k.Uses).String())
	}
	return t.String()
}

func (a Commands) tokenRevokeCommand() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token; nodes that joined by it stay",
		Example: `  weir manager token revoke 3fa9c1`,
		Args:    frame.Names("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.ManagerClient().RevokeToken(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Print(t, func() string { return "revoked token " + t.ID + "\n" })
		},
	})
	a.ManagerSocketFlag(c)
	return c
}
