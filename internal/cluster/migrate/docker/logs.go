// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"maps"
	"regexp"
	"slices"

	"github.com/docker/docker/api/types/container"
)

// logOptions are the options that say how much a file keeps and what stands beside each
// line, with the values that are taken. The engine computes what a template says, and takes a tag
// apart for each container: so of templates only names are let through.
var logOptions = map[string]*regexp.Regexp{
	"max-size":        regexp.MustCompile(`^(-1|[0-9]{1,12}[kKmMgG]?[bB]?)$`),
	"max-file":        regexp.MustCompile(`^[0-9]{1,3}$`),
	"compress":        regexp.MustCompile(`^(true|false)$`),
	"mode":            regexp.MustCompile(`^(blocking|non-blocking)$`),
	"max-buffer-size": regexp.MustCompile(`(?i)^([0-9]{1,7}b?|[0-9]{1,4}kb?|(1[0-6]|[0-9])mb?)$`), // of the engine's memory; 1 MB by default
	"labels":          regexp.MustCompile(`^[\w.,/-]{0,1000}$`),
	"env":             regexp.MustCompile(`^[\w.,/-]{0,1000}$`),
	"labels-regex":    regexp.MustCompile(`^.{0,200}$`),
	"env-regex":       regexp.MustCompile(`^.{0,200}$`),
	"tag":             regexp.MustCompile(`^([\w.:/ -]|\{\{ ?\.(ID|FullID|Name|ImageID|ImageFullID|ImageName|DaemonName) ?\}\}){0,100}$`),
}

// lineOptions put names beside the lines of a log. In the host's journal those could be
// taken for a program's of the host.
var lineOptions = []string{"labels", "labels-regex", "env", "env-regex", "tag"}

// logs go to a file of the container's own, or to the journal under the container's name.
func (e *examiner) logs(h *container.HostConfig) {
	driver := h.LogConfig.Type
	options := h.LogConfig.Config
	h.LogConfig = container.LogConfig{}
	if slices.Contains(e.rules.LogDrivers, driver) {
		return
	}
	rule := "log_drivers: [" + driver + "]"
	switch driver {
	case "", "json-file", "local", "none", "journald":
	default:
		e.Refuse("HostConfig.LogConfig", driver, rule)
	}
	for _, option := range slices.Sorted(maps.Keys(options)) {
		form, known := logOptions[option]
		switch value := options[option]; {
		case !known:
			e.Refuse("HostConfig.LogConfig", option, rule)
		case !form.MatchString(value), driver == "journald" && slices.Contains(lineOptions, option):
			e.Refuse("HostConfig.LogConfig["+option+"]", value, rule)
		}
	}
}
