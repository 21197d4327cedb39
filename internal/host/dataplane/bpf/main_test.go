// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"os"
	"testing"

	"weir/internal/host/dataplane/mark/marktest"
)

// exeDir holds what the tests compile, for as long as they run.
var exeDir string

func TestMain(m *testing.M) {
	marktest.Sender()
	dir, err := os.MkdirTemp("", "weir-bpf-test-")
	if err != nil {
		panic(err)
	}
	exeDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
