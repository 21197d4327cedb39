// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// qdiscSections are the sections of a .network file that have systemd-networkd set a qdisc.
var qdiscSections = []string{
	"BFIFO", "BandMultiQueueing", "CAKE", "ClassfulMultiQueueing", "ControlledDelay", "DeficitRoundRobinScheduler",
	"EnhancedTransmissionSelection", "FairQueueing", "FairQueueingControlledDelay", "FlowQueuePIE", "GenericRandomEarlyDetection",
	"HeavyHitterFilter", "HierarchyTokenBucket", "NetworkEmulator", "PFIFO", "PFIFOFast", "PFIFOHeadDrop", "PIE", "QuickFairQueueing",
	"StochasticFairBlue", "StochasticFairnessQueueing", "TokenBucketFilter", "TrivialLinkEqualizer",
}

// profileFolders are where NetworkManager's plugin for files has profiles.
var profileFolders = []string{"etc/NetworkManager/system-connections", "run/NetworkManager/system-connections", "usr/lib/NetworkManager/system-connections"}

// setters returns the settings of managers of networks that have them set the root qdisc of a
// device whenever they configure it, each with its program and its file. It reads what the managers
// say below /run about the device, and their files; what cannot be read is left out.
func setters(root fs.FS, name string, index int) (found []string) {
	return append(networkdSetters(root, index), networkManagerSetters(root, name, index)...)
}

func networkdSetters(root fs.FS, index int) (found []string) {
	state := readSections(root, fmt.Sprintf("run/systemd/netif/links/%d", index))
	for _, s := range state {
		for _, file := range strings.Fields(s.keys["NETWORK_FILE"] + " " + s.keys["NETWORK_FILE_DROPINS"]) {
			file = strings.Trim(file, `"`)
			if path.Base(path.Dir(file)) != "network" && path.Base(path.Dir(path.Dir(file))) != "network" {
				continue // none of networkd's folders
			}
			for _, set := range readSections(root, strings.TrimPrefix(file, "/")) {
				parent := set.keys["Parent"]
				if slices.Contains(qdiscSections, set.name) && (parent == "" || parent == "root") {
					found = append(found, fmt.Sprintf("systemd-networkd: [%s] in %s", set.name, file))
				}
			}
		}
	}
	return found
}

func networkManagerSetters(root fs.FS, name string, index int) (found []string) {
	uuid := ""
	for _, s := range readSections(root, fmt.Sprintf("run/NetworkManager/devices/%d", index)) {
		uuid += s.keys["connection-uuid"]
	}
	if uuid == "" {
		return nil
	}
	for _, folder := range profileFolders {
		files, _ := fs.Glob(root, path.Join(folder, "*.nmconnection"))
		for _, file := range files {
			theirs, sets := false, false
			for _, s := range readSections(root, file) {
				if s.name == "connection" { // a profile in a file may have no uuid
					theirs = s.keys["uuid"] == uuid || s.keys["uuid"] == "" && s.keys["interface-name"] == name
				}
				sets = sets || s.name == "tc" && s.keys["qdisc.root"] != ""
			}
			if theirs && sets {
				found = append(found, "NetworkManager: [tc] in /"+file)
			}
		}
	}
	return found
}

// section is one of a file as systemd and NetworkManager write them, "" before the first.
type section struct {
	name string
	keys map[string]string
}

// readSections reads such a file, nil if it cannot be read.
func readSections(root fs.FS, file string) []section {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil
	}
	all := []section{{keys: map[string]string{}}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			all = append(all, section{strings.Trim(line, "[]"), map[string]string{}})
		} else if key, value, is := strings.Cut(line, "="); is && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			all[len(all)-1].keys[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return all
}
