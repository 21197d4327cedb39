// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/cli/table"
)

func (a *app) managerTokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Tokens by which nodes join"}
	asGroup(c)
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var ttl time.Duration
	var req api.TokenRequest
	uses := tokenUses(1)
	c := a.printing(&cobra.Command{
		Use:   "create",
		Short: "Make a token by which nodes can join",
		Long: `Make a token. Who has it can become a node until it expires or is used: pass it on like
a password. It is shown once; the manager keeps only a hash of it. It is for one node
unless --uses says otherwise; a node that did not get the answer may use it again.`,
		Example: `  weir manager token create
  weir manager token create --uses 5
  weir manager token create --ttl 10m --node gateway-7`,
		Args: names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if ttl <= 0 {
				return usagef("--ttl %v: not a duration above 0; write one such as 24h", ttl)
			}
			req.TTLSeconds, req.Uses = ttl.Seconds(), int(uses)
			t, err := a.manager().NewToken(c.Context(), req)
			if err != nil {
				return err
			}
			return a.print(t, func() string { return t.Token + "\n" })
		},
	})
	c.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how `LONG` it may be used")
	c.Flags().Var(&uses, "uses", "`NUMBER` of nodes that may join by it, or unlimited")
	c.Flags().StringVar(&req.Node, "node", "", "`NAME` of the only node that may use it (default any)")
	a.managerSocketFlag(c)
	return c
}

// tokenUses is the number of nodes that may join by a token, as a flag.
type tokenUses int

// String implements pflag.Value.
func (u tokenUses) String() string {
	if u == api.AnyNumber {
		return "unlimited"
	}
	return strconv.Itoa(int(u))
}

// Set implements pflag.Value.
func (u *tokenUses) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "unlimited":
		n = api.AnyNumber
	case err != nil || n < 1:
		return errors.New("write a number of nodes, 1 or more, or unlimited")
	}
	*u = tokenUses(n)
	return nil
}

// Type implements pflag.Value.
func (tokenUses) Type() string { return "number" }

// nodes returns the nodes that may use the token, as text.
func (u tokenUses) nodes() string {
	switch u {
	case api.AnyNumber:
		return "any number of nodes"
	case 1:
		return "one node"
	}
	return u.String() + " nodes"
}

func (a *app) tokenListCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: `  weir manager token list`,
		Args:    names(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.manager().Tokens(c.Context())
			if err != nil {
				return err
			}
			return a.print(list, func() string { return renderTokens(list, time.Now()) })
		},
	})
	a.managerSocketFlag(c)
	return c
}

func renderTokens(list []api.Token, now time.Time) string {
	if len(list) == 0 {
		return "no tokens; weir manager token create makes one\n"
	}
	t := table.New("TOKEN", "NODE", "EXPIRES", ">JOINED", ">OF")
	for _, k := range list {
		expires := "in " + age(k.Expires.Sub(now))
		if !now.Before(k.Expires) {
			expires = "expired " + age(now.Sub(k.Expires)) + " ago"
		}
		t.Add(k.ID, cmp.Or(k.Node, "any"), expires, strconv.Itoa(k.Joined), tokenUses(k.Uses).String())
	}
	return t.String()
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token; nodes that joined by it stay",
		Example: `  weir manager token revoke 3fa9c1`,
		Args:    names("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.manager().RevokeToken(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(t, func() string { return "revoked token " + t.ID + "\n" })
		},
	})
	a.managerSocketFlag(c)
	return c
}

// joinToken is the token by which a node joins, as flags.
type joinToken struct {
	text string
	file string // "-" = the standard input
}

func (j *joinToken) register(fs *pflag.FlagSet) {
	fs.StringVar(&j.text, "token", "", "`TOKEN` by which to join for the first time; every user of this host can read it here, so give --token-file instead")
	fs.StringVar(&j.file, "token-file", "", "`FILE` with the token by which to join for the first time; - reads it from the standard input")
}

func (j joinToken) given() bool { return j.text != "" || j.file != "" }

// maxToken bounds how much weir reads of a file or of the standard input, in bytes.
const maxToken = 4096

// read returns the token, "" if there is none: its file may be removed once the node has
// joined.
func (j joinToken) read(file string, stdin io.Reader, log *slog.Logger) (string, error) {
	var text []byte
	var err error
	switch {
	case j.text != "" && j.file != "":
		return "", usagef("--token and --token-file are both given; leave --token out")
	case j.text != "":
		log.Warn("every user of this host can read the token on the command line of this process", "remedy", "give --token-file FILE, or --token-file - and the token on the standard input")
		return j.text, nil
	case file == "":
		return "", nil
	case file == "-":
		if text, err = io.ReadAll(io.LimitReader(stdin, maxToken+1)); err == nil && len(bytes.TrimSpace(text)) == 0 {
			return "", usagef("--token-file -: nothing came on the standard input; pipe the token into it, such as: weir agent ... --token-file - < FILE")
		}
	default:
		text, err = readToken(file)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("token: %w", err)
	case len(text) > maxToken:
		return "", usagef("--token-file %s: has more than %d bytes; write the token and nothing else into it", file, maxToken)
	}
	return string(bytes.TrimSpace(text)), nil
}

// readToken reads as much of a file as tells whether it is longer than a token can be.
func readToken(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxToken+1))
}
