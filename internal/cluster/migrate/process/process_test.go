// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestEndpointsOfTheKernel(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"0B004D0A:0016":                         "10.77.0.11:22",
		"0000000000000000FFFF00000B004D0A:0050": "10.77.0.11:80",
		"B80D01200000000000000000010000 00:1":   "",
	} {
		got, err := endpoint(text)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got.String() != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestWhatCRIUIsToldAboutConnections(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"file-locks\ntcp-established\n":  "established",
		"tcp-close # they can reconnect": "close",
		"#tcp-close":                     "",
		"tcp-established\ntcp-close":     "close",
	} {
		file := filepath.Join(t.TempDir(), "runc.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := TCPMode(file); got != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
	}
}

func TestEnding(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if Ending(cmd.Process.Pid) {
		t.Error("a process that sleeps is said to end")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !Ending(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) { // its parent has not waited for it
			t.Fatal("a process that was killed is said to live")
		}
	}
	_ = cmd.Wait()
	if !Ending(cmd.Process.Pid) {
		t.Error("a process that is gone is said to live")
	}
}
