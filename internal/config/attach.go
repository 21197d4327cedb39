// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"
	"strings"

	"weir/internal/core/invalid"
)

// Attachment makes a workload of something on the host. Exactly one of Netns,
// Device, Unit and Cgroup is set, or Pod, beside which Netns and Cgroup may be. Without a
// name, each device or unit that matches is a workload, called after itself or its virtual
// machine.
type Attachment struct {
	Name   string `json:"name"`
	Netns  string `json:"netns,omitempty"`  // name under /run/netns, or a path
	Device string `json:"device,omitempty"` // veth or tap on the host; without a name, or a pattern
	Unit   string `json:"unit,omitempty"`   // systemd units, names or patterns with commas between them
	Cgroup string `json:"cgroup,omitempty"` // folder of a cgroup of version 2
	Pod    string `json:"pod,omitempty"`    // id of a pod's sandbox; only the API has it, not weir.yaml
	Weight uint32 `json:"weight,omitempty"` // of a pod: its weight where nothing else says one; 0 = 1
}

// String returns the name by which users know the attachment.
func (a Attachment) String() string { return cmp.Or(a.Name, a.Device, a.Unit, a.Netns, a.Cgroup) }

// Check reports the first mistake in an attachment as a *invalid.Error.
func (a Attachment) Check() error {
	if err := a.checkShape(); err != nil {
		return err
	}
	if a.Pod != "" {
		return CheckPodName(a.Name)
	}
	if !a.nameless() {
		if err := CheckName(a.Name); err != nil {
			return err
		}
	}
	if a.Device != "" {
		return CheckDevice(a.Device)
	}
	return nil
}

// nameless reports whether the attachment does without a name.
func (a Attachment) nameless() bool { return a.Name == "" && a.Device+a.Unit != "" }

// checkShape makes the checks of Check that concern the combination of fields and not
// their values.
func (a Attachment) checkShape() error {
	given := 0
	for _, text := range []string{a.Netns, a.Device, a.Unit, a.Cgroup} {
		if text != "" {
			given++
		}
	}
	switch {
	case a.Pod != "" && a.Device+a.Unit == "":
		return nil
	case a.Pod != "":
		return &invalid.Error{Field: "pod", Value: a.Pod, Msg: "a pod is known by its network namespace and its cgroup",
			Remedy: "leave device and unit out"}
	case given != 1:
		return &invalid.Error{Field: "name", Value: a.Name, Msg: "exactly one of netns, device, unit and cgroup is needed",
			Remedy: "name the source of the workload's packets"}
	case a.Name != "" && isPattern(a.Device):
		return &invalid.Error{Field: "device", Value: a.Device, Msg: "is a pattern, and each device is a workload of its own",
			Remedy: "leave the name out under attach: in weir.yaml, or name one device"}
	}
	return nil
}

// isPattern reports whether text is a glob as in a shell rather than a plain name.
func isPattern(text string) bool { return strings.ContainsAny(text, `*?[\`) }

func (c *Config) readAttach(list node) {
	list.items(func(item node) {
		var a Attachment
		item.fields([]string{"name", "netns", "device", "unit", "cgroup"}, func(key string, value node) {
			if !value.given() {
				return
			}
			switch key {
			case "name":
				readText(value, &a.Name)
				value.refuse(CheckName(a.Name))
			case "netns":
				readText(value, &a.Netns)
			case "device":
				readText(value, &a.Device)
				value.refuse(CheckDevice(a.Device))
			case "unit":
				readText(value, &a.Unit)
			case "cgroup":
				readText(value, &a.Cgroup)
			}
		})
		if item.refuse(a.checkShape()); a.Name == "" && !a.nameless() {
			item.wrong("name is missing; give the workload a name")
		}
		if slices.ContainsFunc(c.Attach, func(b Attachment) bool { return a.String() == b.String() && a.Name == b.Name }) {
			item.wrong("%q is there twice; choose another name, or take one out", a.String())
		}
		c.Attach = append(c.Attach, a)
	})
}

// ImagePulls is the workload of those who fetch and push images, ImagePullers. It
// is there if the configuration names it.
const (
	ImagePulls   = "image-pulls"
	ImagePullers = "docker.service,containerd.service"
)

// attachKnown attaches what Weir knows by name, where the file has a policy for it.
func (c *Config) attachKnown() {
	named := func(r Rule) bool { return r.Pattern == ImagePulls }
	attached := func(a Attachment) bool { return a.Name == ImagePulls }
	if slices.ContainsFunc(c.Workloads, named) && !slices.ContainsFunc(c.Attach, attached) {
		c.Attach = append(c.Attach, Attachment{Name: ImagePulls, Unit: ImagePullers})
	}
}
