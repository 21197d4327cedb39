// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestTracesSeeProcesses(t *testing.T) {
	own := namespacesOf(os.Getpid())
	if len(own) != 3 {
		t.Fatalf("namespaces %q, want net, pid and mnt", own)
	}
	want := fmt.Sprintf("process %d in namespace %s", os.Getpid(), own[0])
	if left := own.traces(); !strings.Contains(strings.Join(left, "\n"), want) {
		t.Errorf("this very process was not seen in its namespaces: %q", left)
	}
	if left := (namespaceIDs{"net:[1]"}).traces(); len(left) > 0 {
		t.Errorf("a namespace that does not exist is kept alive by %q", left)
	}
}
