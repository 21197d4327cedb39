// SPDX-License-Identifier: Apache-2.0

package bound

// Input is a kind of text or message that a user other than root may write. One of them may cost
// Memory and CPU at most.
type Input struct {
	Is     string // what it is
	Writer string // who may write it
	Bytes  int    // of one
	Levels int    // of lists and mappings in each other; 0 = it has none, or they cost nothing
	Count  string // how many of it; "" = as many as there are objects
	// Held names the function that refuses or shortens what is beyond the bound, behind the
	// file that declares it.
	Held []string
	// Fuzz names the fuzz targets that drive its reader with that size, behind their package.
	Fuzz []string
}

// Inputs returns the table of all inputs. The size of those that come in pieces (archives,
// answers of switches) is that of the piece that is in memory at once; the whole is bounded by
// what was announced or by the counts.
func Inputs() []Input {
	return []Input{
		{"a label of a container, of an image or of a moved container", "who may start a container; the author of an image; a node whose containers are let in", Label, Levels, "100 of Weir's at one container",
			[]string{"host/agent/decide/labels/labels.go labelLayer", "host/discover/engine/bound.go bounded", "core/yamltree/yamltree.go Parse"},
			[]string{"host/agent/decide FuzzLabels", "core/policy FuzzParseQueues", "core/policy FuzzParseRate", "core/policy FuzzParseAmount", "core/policy FuzzParseWeight", "core/policy/classify FuzzParseMatches", "core/policy/classify FuzzParseDSCP", "core/policy/discipline FuzzParseAQM"}},
		{"an annotation of a pod or a namespace", "the author of a pod; an administrator of a namespace", Label, Levels, "100 of Weir's at one object; all of an object have 256 KiB",
			[]string{"kube/decide/annotations.go put"}, []string{"kube/decide FuzzAnnotations"}},
		{"a change of a policy: in a request, with a moved container, in an order", "members of the groups of Weir's sockets; a node of the cluster", Body, BodyLevels, "",
			[]string{"core/policy/jsonobject/object.go Members", "core/policy/change.go read"}, []string{"core/policy FuzzChange"}},
		{"the body of a request to the agent, the manager, the node port or the page", "who reaches the port or may open the socket; read once the caller may make the request", Body, BodyLevels, "",
			[]string{"api/rest/rest.go Register"}, []string{"face/server FuzzBodies"}},
		{"what an engine says of a container: name, labels, networks", "who may start a container", Container, 0, "32 MiB in an answer",
			[]string{"base/dockerapi/dockerapi.go Read", "host/discover/engine/bound.go bounded", "core/bound/bound.go Shown"}, []string{"host/discover/engine FuzzContainer"}},
		{"what the runtime says of a pod by NRI", "the holder of the runtime's NRI socket; the author of a pod", Policy, 0, "4 MiB in a message, as ttrpc has it",
			[]string{"kube/nri/plugin.go bounded", "kube/nri/plugin.go cgroupPath"}, []string{"kube/nri FuzzSandbox"}},
		{"a claim of a device, with its opaque parameters", "the author of a pod", Claim, 0, "",
			[]string{"kube/claims/translate/ask.go Ask"}, []string{"kube/claims/translate FuzzClaim"}},
		{"the command line of a process", "each user of the host", Machine, 0, "",
			[]string{"host/discover/machine/qemu.go readCommand", "core/bound/bound.go Shown"}, []string{"host/discover/machine FuzzParseQEMU"}},
		{"libvirt's description of a machine", "who may define a machine", Machine, 0, "",
			[]string{"host/discover/machine/libvirt.go parseStatus", "core/bound/bound.go Shown"}, []string{"host/discover/machine FuzzParseDomain"}},
		{"the paths of a process's cgroups", "who may make cgroups: a user's systemd, a container with cgroups of its own", Cgroups, 0, "",
			[]string{"base/cgroup/some.go beginning"}, []string{"host/discover FuzzCgroupContainer", "host/discover FuzzCgroupOfContainer"}},
		{"the files of a container's cgroup, and of its process in /proc", "a process in a container", Cgroups, 0, "",
			[]string{"base/cgroup/some.go beginning", "cluster/profile/sampler.go New", "cluster/profile/reader.go file"}, []string{"cluster/profile FuzzParsers"}},
		{"a message of the bus: report, heartbeat, profile, order", "a node of the cluster; the broker", Message, 0, "131072 values in it, 2000 in a list; by subject and node, docs/cluster.md",
			[]string{"core/wire/envelope.go Open"}, []string{"core/wire FuzzOpen", "cluster/manager FuzzProfile"}},
		{"a signing request: to join, to renew", "who has a join token; a node of the cluster", Body, 0, "",
			[]string{"cluster/pki/authority.go IssueNode"}, []string{"cluster/pki FuzzRequest"}},
		{"a call of another node, or of the agent to its migration helper", "a node of the cluster; the agent", Call, 0, "32768 values in it; docs/security.md, TestOverload",
			[]string{"cluster/migrate/remote/helper.go serve", "cluster/migrate/remote/call.go Read"}, []string{"cluster/migrate/remote FuzzCall"}},
		{"the description of a container that is to come, with its engine's configuration", "a node whose containers are let in", Description, 0, "8192 objects and 32768 values in it",
			[]string{"cluster/node/guest/description.go Readable", "cluster/migrate/docker/accept.go decode"}, []string{"cluster/warrant FuzzProposal", "cluster/migrate/docker FuzzExamine"}},
		{"an archive of a volume, a layer or a checkpoint", "a node whose containers are let in", Message, 0, "bytes and entries as announced",
			[]string{"cluster/migrate/pack/read.go decoder", "cluster/migrate/pack/read.go Read"}, []string{"cluster/migrate/pack FuzzRead", "cluster/migrate/pack FuzzTar"}},
		{"an archive of an image: its manifest and its configuration", "a node whose containers are let in", Message, 0, "bytes and entries as announced",
			[]string{"cluster/migrate/docker/archive/archive.go onlyImage", "cluster/migrate/docker/archive/archive.go Survey"}, []string{"cluster/migrate/docker/archive FuzzSurvey"}},
		{"a request to the manager's registry; a manifest in it", "a node of the cluster", Manifest, 0, "4 uploads of a node at once; 8192 values in a manifest, 512 in a list",
			[]string{"cluster/migrate/registry/serve.go putManifest"}, []string{"cluster/migrate/registry FuzzRequests"}},
		{"a row in a message of Open vSwitch's database", "the switch", DatabaseRow, DatabaseLevels, "8 MiB and 174762 values in a message; 32768 rows of 32 MiB together",
			[]string{"host/sdn/ovsdb/conn.go UnmarshalJSON", "host/sdn/ovsdb/frame.go add"}, []string{"host/sdn/ovsdb FuzzFrame", "host/sdn/ovsdb FuzzDatabase"}},
		{"an OpenFlow message", "the switch", Policy, 0, "4 MiB and 87381 fields and actions in one answer",
			[]string{"host/sdn/openflow/conn.go multipart"}, []string{"host/sdn/openflow FuzzMessages", "host/sdn/openflow FuzzSwitch", "host/sdn/openflow FuzzDecode"}},
		{"a file of prefixes", "the program that makes it, as root", Prefixes, 0, "100000 prefixes",
			[]string{"config/zones.go readPrefixFile", "core/policy/zone/parse.go AddFile"}, []string{"core/policy/zone FuzzPrefixes"}},
		{"what a user says that is a line of the audit log: names, reasons, values", "all of the above", Body, 0, "8 KiB in a line",
			[]string{"base/audit/entry.go line"}, []string{"base/audit FuzzLine"}},
		{"the rules of a host's firewall", "each program that may change them", Policy, 0, "32 MiB of one program's",
			[]string{"host/doctor/look.go run"}, []string{"host/doctor FuzzRules"}},
	}
}
