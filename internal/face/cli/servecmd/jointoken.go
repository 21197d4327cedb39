// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"weir/internal/base/safepath"
	"weir/internal/face/cli/frame"
)

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
		return "", frame.Usagef("--token and --token-file are both given; leave --token out")
	case j.text != "":
		log.Warn("every user of this host can read the token on the command line of this process", "remedy", "give --token-file FILE, or --token-file - and the token on the standard input")
		return j.text, nil
	case file == "":
		return "", nil
	case file == "-":
		if text, err = io.ReadAll(io.LimitReader(stdin, maxToken+1)); err == nil && len(bytes.TrimSpace(text)) == 0 {
			return "", frame.Usagef("--token-file -: nothing came on the standard input; pipe the token into it, such as: weir agent ... --token-file - < FILE")
		}
	default:
		text, _, err = safepath.Read(file, maxToken)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil && !errors.Is(err, safepath.ErrLarge):
		return "", fmt.Errorf("token %s: %w", file, err)
	case err != nil || len(text) > maxToken:
		return "", frame.Usagef("--token-file %s: has more than %d bytes; write the token and nothing else into it", file, maxToken)
	}
	return string(bytes.TrimSpace(text)), nil
}
