// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"weir/internal/dev/figures"
)

// The transcript of the cluster's demonstration has what the run printed and measured,
// and nothing else.
func TestClusterDemo(t *testing.T) {
	text := `{"run":{"commit":"0123456789abcdef","date":"2026-11-23","machine":"a machine"}}
{"verb":"weir","subject":"migrate web --to a --approach commit","output":"pre-flight - 0.00 s\nfreeze  -  0.30 s\npush-image - 0.23 s\npush  1.95 kB  0.13 s\nweb runs on a: down for 5.29 s\n"}
{"verb":"measure","label":"before","rates":[{"container":"camera","rate_bps":5.8e6},{"container":"db","rate_bps":24e6}]}
{"verb":"weir","subject":"set camera --min 20mbit","output":"asked the manager: moving camera to b (refused here: no room)\n"}
{"verb":"measure","label":"after","rates":[{"container":"camera","rate_bps":18.4e6},{"container":"db","rate_bps":28e6}]}
`
	r, err := figures.Parse("cluster/demo", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := clusterDemo(func(string) *figures.Run { return r })
	want := `    $ weir migrate web --to a --approach commit   # its image is there already
    freeze  -  0.30 s
    push  1.95 kB  0.13 s
    web runs on a: down for 5.29 s

    $ weir set camera --min 20mbit                # a has promised 24 of 30 to db
    asked the manager: moving camera to b

    received          before         after
    camera        5.8 Mbit/s   18.4 Mbit/s
    db           24.0 Mbit/s   28.0 Mbit/s

(Commit ` + "`0123456789ab`" + `, 2026-11-23, on a machine.)`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.Lines = r.Lines[:3]
	if got := cell(func() string { return clusterDemo(func(string) *figures.Run { return r }) }); got != notMeasured {
		t.Errorf("without the second measurement: %s", strings.TrimSpace(got))
	}
}
