// SPDX-License-Identifier: Apache-2.0

// Package version says which build of Weir this is.
//
// A release sets the number when it links:
//
//	go build -ldflags "-X weir/internal/base/version.number=1.2.0" ./cmd/weir
//
// Any other build falls back to what the Go tool chain recorded: the module's
// version if there is one, else "devel" with the commit.
package version

import (
	"runtime"
	"runtime/debug"
)

// number is set by the linker; see the package comment.
var number string

// Build describes a build: "weir version" prints it, the metric weir_build_info carries it.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Built    string `json:"built,omitempty"` // time of the commit, RFC 3339
	Modified bool   `json:"modified"`        // built from a tree with changes on top of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get describes the running binary.
func Get() Build {
	build, _ := debug.ReadBuildInfo()
	return describe(number, build)
}

// String returns the version alone, e.g. "1.2.0" or "devel-1a2b3c4d5e6f".
func String() string { return Get().Version }

func describe(number string, build *debug.BuildInfo) Build {
	info := Build{
		Version:  number,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build == nil {
		build = &debug.BuildInfo{}
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Built = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	if info.Version == "" {
		info.Version = fallback(build.Main.Version, info)
	}
	return info
}

// fallback names a build that was linked without a number.
func fallback(module string, info Build) string {
	if module != "" && module != "(devel)" {
		return module
	}
	if info.Commit == "" {
		return "devel"
	}
	v := "devel-" + info.Commit[:min(12, len(info.Commit))]
	if info.Modified {
		v += "-modified"
	}
	return v
}
