// SPDX-License-Identifier: Apache-2.0

// Command manifests writes the plain manifests of deploy/kubernetes, which are the chart of
// deploy/helm/weir with its default values, rendered by Helm's own library:
//
//	go run -C tools/chart ./manifests          # writes them
//	go run -C tools/chart ./manifests -check   # fails if they are not in step
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// From the folder of this module.
const (
	chartFolder    = "../../deploy/helm/weir"
	manifestFolder = "../../deploy/kubernetes"
)

// release is the name and the namespace of the plain manifests.
const release = "weir"

func main() {
	check := flag.Bool("check", false, "write nothing; exit code 1 if a file is not in step")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "manifests: "+err.Error())
		os.Exit(1)
	}
}

func run(check bool) error {
	files, err := plain(chartFolder)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(manifestFolder, name)
		if check {
			have, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !bytes.Equal(have, files[name]) {
				return fmt.Errorf("%s is not what the chart gives; run make manifests", file)
			}
			continue
		}
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// plain returns the plain manifests by their name: deploy/kubernetes/weir.yaml is all of the chart
// in a namespace of its own, deploy/kubernetes/claims.yaml what a cluster needs for claims where
// weir-kubernetes is installed otherwise.
func plain(folder string) (map[string][]byte, error) {
	rendered, err := render(folder, nil)
	if err != nil {
		return nil, err
	}
	const head = "# SPDX-License-Identifier: Apache-2.0\n#\n# Made from deploy/helm/weir by make manifests; change that one.\n"
	var all bytes.Buffer
	all.WriteString(head + namespace)
	for _, name := range inOrder(rendered) {
		all.WriteString("---\n" + body(rendered[name]))
	}
	return map[string][]byte{"weir.yaml": all.Bytes(), "claims.yaml": []byte(head + body(rendered["claims.yaml"]))}, nil
}

// namespace is the namespace of the plain manifests; Helm makes one with --create-namespace. The
// agent's pods need what the Pod Security Standards call privileged: the host's network and paths.
const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + release + `
  labels:
    pod-security.kubernetes.io/enforce: privileged
`

// body returns a rendered template without the line of its licence, blank lines, and the label that
// says that Helm manages the object.
func body(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && !strings.Contains(line, "SPDX-License-Identifier") && !strings.Contains(line, "app.kubernetes.io/managed-by:") {
			lines = append(lines, line)
		}
	}
	return strings.TrimPrefix(strings.Join(lines, ""), "#\n")
}

// inOrder returns the names of rendered templates in the order in which their objects are applied.
func inOrder(rendered map[string]string) (names []string) {
	for _, name := range []string{"rbac.yaml", "claims.yaml", "admission.yaml", "config.yaml", "daemonset.yaml"} {
		if strings.Contains(rendered[name], "kind:") {
			names = append(names, name)
		}
	}
	return names
}

// render returns the templates of a chart by their file, with values over the default ones, as helm
// install does: values are checked against the schema first.
func render(folder string, values map[string]any) (map[string]string, error) {
	chart, err := loader.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: release, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	byFile := map[string]string{}
	for name, text := range rendered {
		byFile[path.Base(name)] = text
	}
	delete(byFile, "_helpers.tpl")
	return byFile, nil
}
