// SPDX-License-Identifier: Apache-2.0

// Package arch holds the shape of the program: which package may import which,
// and who may touch the kernel. It reads the source, so that it holds for every
// build tag.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const module = "weir"

// layers says how high each package stands, by the folder it is in; what lies
// below a folder belongs to it. A package imports from strictly lower layers,
// and from its own folder. A new package has to be entered here.
//
//	cmd -> labcli -> cli, demo -> server, lab -> agent -> dataplane, discover -> plan -> policy
var layers = map[string]int{
	"internal/base/atomicfile":      0,
	"internal/base/audit":           2,
	"internal/core/bound":           -1,
	"internal/test/boundtest":       0,
	"internal/base/cgroup":          0,
	"internal/core/closest":         0,
	"internal/base/crowd":           1,
	"internal/core/delay":           0,
	"internal/host/disk":            0,
	"internal/core/event":           2,
	"internal/test/extendtest":      0,
	"internal/test/goldentest":      0,
	"internal/test/dockertest":      1,
	"internal/core/invalid":         0,
	"internal/test/doccommand":      0,
	"internal/host/localtime":       1,
	"internal/test/logtest":         0,
	"internal/core/policy":          1,
	"internal/core/refusal":         0,
	"internal/base/program":         0,
	"internal/base/retry":           0,
	"internal/host/rootlock":        2,
	"internal/lab/sandbox":          0,
	"internal/base/nsthread":        0,
	"internal/host/dump":            0,
	"internal/base/strictyaml":      0,
	"internal/base/safepath":        0,
	"internal/base/tlsfile":         1,
	"internal/base/verdict":         0,
	"internal/base/version":         0,
	"internal/core/yamltree":        0,
	"internal/core/workload":        0,
	"internal/host/sdn/openflow":    2,
	"internal/core/wire":            0,
	"internal/cluster/optimize":     2,
	"internal/cluster/optimize/sim": 3,
	"internal/cluster/profile":      2,
	"internal/cluster/pki":          2,
	"internal/cluster/bus":          3,
	"internal/cluster/manager":      6,
	"internal/cluster/node":         6,
	"internal/cluster/migrate":      2,
	"internal/cluster/warrant":      3,
	"internal/cluster/clustertest":  4,
	"internal/core/plan":            2,
	"internal/core/paths":           2,
	"internal/core/control":         2,
	"internal/host/sdn/ovsdb":       2,
	"internal/api":                  3,
	"internal/config":               3,
	"internal/host/dataplane":       3,
	"internal/host/discover":        3,
	"internal/host/discover/hold":   4,
	"internal/host/sdn/switchport":  3,
	"internal/host/agent/decide":    4,
	"internal/host/agent/usage":     4,
	"internal/host/agent/ledger":    4,
	"internal/host/agent":           5,
	"internal/host/daemon":          6,
	"internal/host/doctor":          4,
	"internal/host/sdn":             4,
	"internal/face/server":          5,
	"internal/face/web":             4,
	"internal/host/verify":          4,
	"internal/lab":                  5,
	"internal/kube":                 7,
	"internal/kube/claims":          6,
	"internal/kube/plugin":          2,

	"internal/kube/claims/translate": 4,

	"internal/kube/decide": 4,
	"internal/lab/demo":    6,
	"internal/face/cli":    7,
	"internal/test/e2e":    7,
	"internal/test/beside": 7,
	"internal/lab/labcli":  8,
	"internal/dev":         9,
	"cmd":                  9,

	"internal/cluster/manager/membership": 4,
	"internal/cluster/manager/statedir":   1,

	// The packages inside of internal/cluster/node.
	"internal/cluster/node/gate":        3,
	"internal/cluster/node/guest":       4,
	"internal/cluster/node/images":      3,
	"internal/cluster/node/incoming":    5,
	"internal/cluster/node/membership":  4,
	"internal/cluster/node/outgoing":    5,
	"internal/cluster/node/profiler":    4,
	"internal/cluster/manager/moves":    2,
	"internal/cluster/manager/planning": 3,
}

// observers may use cilium/ebpf outside of the data plane: they watch what the
// kernel does with a program of their own and steer nothing.
var observers = []string{"internal/lab/meter"}

// pure packages are functions of their arguments; each is an entry of layers.
var pure = []string{"internal/core/bound", "internal/core/refusal", "internal/core/invalid", "internal/core/delay", "internal/core/yamltree", "internal/core/policy", "internal/core/plan", "internal/core/paths", "internal/core/event", "internal/core/control", "internal/cluster/optimize", "internal/host/agent/decide", "internal/host/agent/usage", "internal/cluster/node/guest", "internal/cluster/manager/moves", "internal/cluster/manager/planning", "internal/kube/decide", "internal/kube/claims/translate"}

// labOnly are the folders whose packages may be in weir-lab and not in weir, the program that
// runs on hosts as root. So are all packages whose name ends in "test".
var labOnly = []string{"internal/lab", "internal/lab/labcli", "internal/lab/demo", "internal/lab/sandbox", "internal/dev/suite", "internal/host/dataplane/fake", "internal/cluster/clustertest"}

// clusterOnly is the folder of weir-kubernetes, and clusterLibraries are what only its packages
// may import: they are large, and weir runs as root.
const clusterOnly = "internal/kube"

var clusterLibraries = []string{"k8s.io", "sigs.k8s.io", "github.com/containerd/nri", "github.com/containerd/ttrpc"}

// impureImports bring I/O, time, chance or a logger in; each stands for the packages
// below it too, but for net/netip, which is values.
var impureImports = []string{"os", "net", "io", "log", "syscall", "runtime", "context", "math/rand", "crypto", "embed", "C"}

// pureLibraries are functions of their arguments too.
var pureLibraries = []string{"go.yaml.in/yaml/v3", // a text's syntax tree
	"k8s.io/apimachinery/pkg/api/resource",                                                              // quantities
	"k8s.io/api/resource/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime"} // Kubernetes' types

// pureCalls are the functions of packages that do I/O which pure packages call: these are
// functions of their arguments too. Types are everywhere.
var pureCalls = []string{"internal/api.LinkName", "internal/api.Mistake", "internal/api.NoRoom", "internal/api.PolicyOf", "internal/api.RoundedDown", "internal/config.CheckName", "internal/config.CheckPodName", "internal/config.DefaultLink", "internal/cluster/warrant.Deny", "internal/core/wire.Clip"}

var (
	// The clock; durations and the like are values.
	clockNames = regexp.MustCompile(`^(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)$`)
	// What netlink has to do with scheduling of packets.
	tcNames = regexp.MustCompile(`Qdisc|Class|Filter|Htb|Tbf|Netem|Clsact|Mirred|PfifoFast|FqCodel|U32|HANDLE_`)
)

const (
	ebpfPath    = "github.com/cilium/ebpf"
	netlinkPath = "github.com/vishvananda/netlink"
)

// source is one file of the module that goes into the program.
type source struct {
	path    string // from the module's root
	folder  string
	imports []string
	file    *ast.File
	fset    *token.FileSet
}

func TestImportsPointDownwards(t *testing.T) {
	for _, s := range sources(t) {
		own, height, known := layerOf(s.folder)
		if !known {
			t.Errorf("%s: package %s has no layer; enter it in the table in internal/arch_test.go", s.path, s.folder)
			continue
		}
		for _, imported := range s.imports {
			folder, inModule := strings.CutPrefix(imported, module+"/")
			if !inModule {
				continue
			}
			if theirs, depth, _ := layerOf(folder); theirs != own && depth >= height {
				t.Errorf("%s: %s (layer %d) imports %s (layer %d); imports point downwards", s.path, own, height, folder, depth)
			}
		}
	}
}

// TestArchitectureShowsEveryLayer: docs/architecture.md has each package of the table in
// its picture of the layers, in its layer, and in its list of packages.
func TestArchitectureShowsEveryLayer(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^ {3,4}(-?\d)((?:  +\S+)+)$`).FindAllStringSubmatch(string(text), -1) {
		height, _ := strconv.Atoi(row[1])
		for _, name := range strings.Fields(row[2]) {
			if name != "cmd" {
				name = "internal/" + name
			}
			drawn[name] = height
		}
	}
	if !maps.Equal(drawn, layers) {
		t.Errorf("the picture of the layers in docs/architecture.md differs from the table here:\n%v\n%v", drawn, layers)
	}
	for entry := range layers {
		if rows := strings.Count(string(text), "\n| `"+entry+"` |"); entry != "cmd" && rows != 1 {
			t.Errorf("docs/architecture.md has %d rows for %s, want one", rows, entry)
		}
	}
}

// TestLinterHasTheRules: .golangci.yml has the rules about imports that depguard can hold
// as they are here, so that an editor shows the same as these tests.
func TestLinterHasTheRules(t *testing.T) {
	text, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Files []string
		Mode  string `yaml:"list-mode"`
		Allow []string
		Deny  []struct{ Pkg string }
	}
	var file struct {
		Linters struct {
			Enable   []string
			Settings struct {
				Depguard struct{ Rules map[string]rule }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	wantPure, wantEBPF := []string{"!$test"}, []string{"!$test", "!**/internal/host/dataplane/**"}
	for _, folder := range pure {
		wantPure = append(wantPure, "**/"+folder+"/**")
	}
	for _, folder := range observers {
		wantEBPF = append(wantEBPF, "!**/"+folder+"/*")
	}
	same := func(what string, got, want []string) {
		if got, want := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf(".golangci.yml: %s: %v, and internal/arch_test.go has %v", what, got, want)
		}
	}
	denied := func(r rule) (list []string) {
		for _, d := range r.Deny {
			list = append(list, d.Pkg)
		}
		return list
	}
	rules := file.Linters.Settings.Depguard.Rules
	same("files of rule pure", rules["pure"].Files, wantPure)
	same("what rule pure allows", rules["pure"].Allow, []string{"net/netip"})
	same("what rule pure denies", denied(rules["pure"]), impureImports)
	same("files of rule ebpf", rules["ebpf"].Files, wantEBPF)
	same("what rule ebpf denies", denied(rules["ebpf"]), []string{ebpfPath})
	same("mode of rule pure", []string{rules["pure"].Mode}, []string{"lax"})
	if !slices.Contains(file.Linters.Enable, "depguard") {
		t.Error(".golangci.yml does not enable depguard")
	}
}

// TestTheDaemonIsLean: weir consists of nothing that only tries, shows or tests it, nor of
// anything of weir-kubernetes; that one has nothing of the data plane.
func TestTheDaemonIsLean(t *testing.T) {
	for folder, importer := range partsOf(t, "cmd/weir", 20) {
		if strings.HasSuffix(folder, "test") || slices.ContainsFunc(labOnly, func(only string) bool { return below(folder, only) }) {
			t.Errorf("cmd/weir consists of %s, by %s; only weir-lab may", folder, importer)
		}
		if below(folder, clusterOnly) {
			t.Errorf("cmd/weir consists of %s, by %s; only weir-kubernetes may", folder, importer)
		}
	}
	for folder, importer := range partsOf(t, "cmd/weir-kubernetes", 5) {
		if below(folder, "internal/host/dataplane") || below(folder, "internal/host/agent") || strings.HasSuffix(folder, "test") {
			t.Errorf("cmd/weir-kubernetes consists of %s, by %s; it speaks to the agent's socket", folder, importer)
		}
	}
}

// TestOnlyWeirKubernetesHasItsLibraries: no other package imports them, so that they are
// neither in weir nor in weir-lab.
func TestOnlyWeirKubernetesHasItsLibraries(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			if !below(s.folder, clusterOnly) && slices.ContainsFunc(clusterLibraries, func(l string) bool { return below(imported, l) }) {
				t.Errorf("%s imports %s; only %s does", s.path, imported, clusterOnly)
			}
		}
	}
}

// partsOf returns the packages that a program consists of, each with one that imports it.
func partsOf(t *testing.T, program string, least int) map[string]string {
	t.Helper()
	imports := map[string][]string{}
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			if folder, inModule := strings.CutPrefix(imported, module+"/"); inModule {
				imports[s.folder] = append(imports[s.folder], folder)
			}
		}
	}
	via := map[string]string{program: ""} // package to one that imports it
	for queue := []string{program}; len(queue) > 0; queue = queue[1:] {
		for _, folder := range imports[queue[0]] {
			if _, seen := via[folder]; !seen {
				via[folder] = queue[0]
				queue = append(queue, folder)
			}
		}
	}
	if len(via) < least {
		t.Fatalf("%s consists of %d packages only", program, len(via))
	}
	return via
}

func TestPurePackagesDoNoIO(t *testing.T) {
	for _, s := range sources(t) {
		if entry, _, _ := layerOf(s.folder); !slices.Contains(pure, entry) {
			continue
		}
		for _, imported := range s.imports {
			if imported != "net/netip" && slices.ContainsFunc(impureImports, func(p string) bool { return below(imported, p) }) {
				t.Errorf("%s imports %s; pure packages are functions of their arguments", s.path, imported)
			}
			if strings.Contains(strings.Split(imported, "/")[0], ".") && !slices.Contains(pureLibraries, imported) {
				t.Errorf("%s imports %s; pure packages need nothing but the standard library", s.path, imported)
			}
		}
		s.uses(t, "time", clockNames, "pure packages have no clock")
	}
}

// TestPurePackagesCallNoIO: what a pure package takes from one of the module that does I/O is
// its types and words; the functions that it calls there are named in pureCalls.
func TestPurePackagesCallNoIO(t *testing.T) {
	list := sources(t)
	impure, functions := map[string]bool{}, map[string]bool{} // by folder; by "folder.Name"
	for _, s := range list {
		impure[s.folder] = impure[s.folder] || slices.ContainsFunc(s.imports, func(imported string) bool {
			return imported != "net/netip" && slices.ContainsFunc(impureImports, func(p string) bool { return below(imported, p) })
		})
		for _, declared := range s.file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[s.folder+"."+f.Name.Name] = true
			}
		}
	}
	called := map[string]bool{}
	for _, s := range list {
		if entry, _, _ := layerOf(s.folder); !slices.Contains(pure, entry) {
			continue
		}
		for _, imported := range s.imports {
			folder, inModule := strings.CutPrefix(imported, module+"/")
			if !inModule || !impure[folder] {
				continue
			}
			local := s.localName(imported)
			ast.Inspect(s.file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := selector.X.(*ast.Ident)
				name := folder + "." + selector.Sel.Name
				if !ok || x.Name != local || !functions[name] {
					return true
				}
				if called[name] = true; !slices.Contains(pureCalls, name) {
					t.Errorf("%s: %s; a pure package calls a function of one that does I/O only if pureCalls names it", s.fset.Position(n.Pos()), name)
				}
				return true
			})
		}
	}
	for _, name := range pureCalls {
		if !called[name] {
			t.Errorf("pureCalls has %s, which no pure package calls", name)
		}
	}
}

func TestOnlyTheDataPlaneTouchesTheKernelsScheduling(t *testing.T) {
	for _, s := range sources(t) {
		if below(s.folder, "internal/host/dataplane") {
			continue
		}
		for _, imported := range s.imports {
			if below(imported, ebpfPath) && !slices.Contains(observers, s.folder) {
				t.Errorf("%s imports %s; only internal/host/dataplane does", s.path, imported)
			}
		}
		s.uses(t, netlinkPath, tcNames, "only internal/host/dataplane uses netlink's tc part")
	}
}

// uses reports each use of a name of an imported package that matches.
func (s source) uses(t *testing.T, importPath string, names *regexp.Regexp, rule string) {
	local := s.localName(importPath)
	if local == "" {
		return
	}
	if local == "." {
		t.Errorf("%s: dot import of %s hides what is used", s.path, importPath)
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == local && names.MatchString(selector.Sel.Name) {
			t.Errorf("%s: %s.%s; %s", s.fset.Position(n.Pos()), local, selector.Sel.Name, rule)
		}
		return true
	})
}

// localName returns the name that the file gives an imported package, "" if it does not
// import it.
func (s source) localName(importPath string) string {
	for _, spec := range s.file.Imports {
		if spec.Path.Value != strconv.Quote(importPath) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// below says whether a folder is parent or inside of it.
func below(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

// layerOf finds the entry of layers that a folder belongs to.
func layerOf(folder string) (entry string, height int, known bool) {
	for at := folder; at != "."; at = path.Dir(at) {
		if height, known = layers[at]; known {
			return at, height, true
		}
	}
	return "", 0, false
}

// sources parses all Go files of the module but its tests.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module's root is not where this test expects it: %v", err)
	}
	var list []source
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "out"):
			return fs.SkipDir
		case entry.IsDir() && p != root && exists(filepath.Join(p, "go.mod")):
			return fs.SkipDir // a module of its own: tools that are not part of the program
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		s, err := parse(root, p)
		list = append(list, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 5 {
		t.Fatalf("only %d files found in %s", len(list), root)
	}
	return list
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func parse(root, file string) (source, error) {
	relative, err := filepath.Rel(root, file)
	if err != nil {
		return source{}, err
	}
	s := source{path: filepath.ToSlash(relative), fset: token.NewFileSet()}
	s.folder = path.Dir(s.path)
	if s.file, err = parser.ParseFile(s.fset, file, nil, parser.SkipObjectResolution); err != nil {
		return source{}, err
	}
	for _, spec := range s.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, imported)
	}
	return s, nil
}
