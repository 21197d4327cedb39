// SPDX-License-Identifier: Apache-2.0

// Package program finds Weir's programs from one another. Beside weir, which runs
// on hosts, there are weir-manager, which runs a cluster's manager, and weir-lab, which has the lab
// and the demonstration. weir hands commands over to both, and weir-lab starts agents and managers:
//
//	path, err := program.Find(program.Lab) // /usr/bin/weir-lab, where weir is /usr/bin/weir
//
// It does not compare versions: programs that stand side by side are built together.
//
// And it gives back the memory that a program's own file takes, once it has started.
package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The names of the programs' files.
const (
	Weir    = "weir"
	Manager = "weir-manager"
	Lab     = "weir-lab"
)

// Find returns the path of a program: beside the running one, else in PATH. The error says
// where Find has looked, and has no remedy.
func Find(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return find(name, filepath.Dir(self))
}

// find looks in a folder, then in PATH.
func find(name, folder string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: it is neither in %s nor in PATH", name, folder)
	}
	return filepath.Abs(path)
}
