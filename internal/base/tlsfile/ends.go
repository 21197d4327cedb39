// SPDX-License-Identifier: Apache-2.0

package tlsfile

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"
)

// soon is how long before its end a certificate is called out, unless a fifth of its life is less:
// those that live for a few days only are renewed in time.
const soon = 14 * 24 * time.Hour

// Life is for how long the certificates of a file are valid together.
type Life struct{ Begins, Ends time.Time }

// ReadLife reads the file of a certificate and those that signed it, or of authorities. Of several
// authorities one that is valid is enough, so the latest end counts.
func ReadLife(path string, authorities bool) (Life, error) {
	text, err := read("certificate", path, false)
	if err != nil {
		return Life{}, err
	}
	var life Life
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" {
			continue
		}
		if err != nil {
			return Life{}, fmt.Errorf("certificate %s: %w", path, err)
		}
		first := life.Ends.IsZero()
		if first || authorities && cert.NotAfter.After(life.Ends) || !authorities && cert.NotAfter.Before(life.Ends) {
			life = Life{cert.NotBefore, cert.NotAfter}
		}
	}
	if life.Ends.IsZero() {
		return Life{}, fmt.Errorf("certificate %s: holds none; give a file in PEM (BEGIN CERTIFICATE)", path)
	}
	return life, nil
}

// Trouble returns what is wrong with certificates at a moment, "" if they are valid and will be
// for a while.
func (l Life) Trouble(now time.Time) string {
	switch end := l.Ends.UTC().Format(time.RFC3339); {
	case now.Before(l.Begins):
		return "is not valid before " + l.Begins.UTC().Format(time.RFC3339) + "; the clock of this host may be wrong"
	case now.After(l.Ends):
		return "has ended " + end
	case l.Ends.Sub(now) < min(soon, l.Ends.Sub(l.Begins)/5):
		return "ends " + end
	}
	return ""
}
