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

// floors are the wings of the house, folders of internal/, from the ground up. A wing imports
// from wings of lower floors only; those that share a floor never import each other.
var floors = [][]string{
	{"core"},                    // pure: what shares, policies, refusals and messages mean
	{"base"},                    // files, TLS, namespaces, cgroups: what any program needs of its host
	{"test"},                    // aids of tests; in no program that runs on hosts
	{"config", "api"},           // what administrators write, what crosses the socket
	{"host", "cluster", "kube"}, // three products
	{"face"},                    // for people and programs: commands, HTTP, pages
	{"lab"},                     // measures the products
	{"dev"},                     // makes pages and manuals, runs the suites
}

// observers may use cilium/ebpf outside of the data plane: they watch what the
// kernel does with a program of their own and steer nothing.
var observers = []string{"internal/lab/meter"}

// pureNames are the packages outside of core that are functions of their arguments too, with
// what lies below them, wherever they stand.
var pureNames = []string{"decide", "guest", "move", "moves", "optimize", "planning", "translate", "usage"}

// clusterLibraries are what only kube may import: they are large, and weir runs as root.
var clusterLibraries = []string{"k8s.io", "sigs.k8s.io", "github.com/containerd/nri", "github.com/containerd/ttrpc"}

// impureImports bring I/O, time, chance or a logger in; each stands for the packages
// below it too, but for values.
var impureImports = []string{"os", "net", "io", "log", "syscall", "runtime", "context", "math/rand", "crypto", "embed", "C"}

// values are the packages below those that are functions of their arguments too.
var values = []string{"net/netip", "crypto/ed25519", "crypto/sha256"}

// pureLibraries are functions of their arguments too.
var pureLibraries = []string{"go.yaml.in/yaml/v3", // a text's syntax tree
	"k8s.io/apimachinery/pkg/api/resource",                                                              // quantities
	"k8s.io/api/resource/v1", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime"} // Kubernetes' types

// pureCalls are the functions of packages that do I/O which pure packages call: these are
// functions of their arguments too. Types are everywhere.
var pureCalls = []string{"internal/api.LinkName", "internal/api.Mistake", "internal/api.NoRoom", "internal/api.PolicyOf", "internal/api.RoundedDown", "internal/config.CheckName", "internal/config.CheckPodName", "internal/config.DefaultLink"}

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
		own, height := wingOf(s.folder)
		if height < 0 {
			if own != "cmd" && own != "internal" {
				t.Errorf("%s: there is no wing %s; the wings are floors in internal/arch_test.go", s.path, own)
			}
			continue
		}
		for _, imported := range s.imports {
			folder, inModule := strings.CutPrefix(imported, module+"/")
			if theirs, depth := wingOf(folder); inModule && theirs != own && depth >= height {
				t.Errorf("%s: %s imports %s; imports point downwards, and wings of one floor stand apart", s.path, own, folder)
			}
		}
	}
}

// TestRoomsFormNoCircle: the rooms of a wing, the folders in it, import each other in one
// direction, so that each can be read after those that it needs.
func TestRoomsFormNoCircle(t *testing.T) {
	needs := map[string][]string{}
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			if folder, inModule := strings.CutPrefix(imported, module+"/"); inModule && room(folder) != room(s.folder) {
				needs[room(s.folder)] = append(needs[room(s.folder)], room(folder))
			}
		}
	}
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(string, []string)
	visit = func(at string, way []string) {
		switch state[at] {
		case open:
			t.Errorf("a circle of imports: %s", strings.Join(append(way, at), " -> "))
		case 0:
			state[at] = open
			for _, next := range needs[at] {
				visit(next, append(slices.Clone(way), at))
			}
			state[at] = done
		}
	}
	for at := range needs {
		visit(at, nil)
	}
}

// room returns the folder of a wing that a package is in; the packages of a wing's own folder
// are its first room.
func room(folder string) string {
	parts := strings.Split(folder, "/")
	return strings.Join(parts[:min(3, len(parts))], "/")
}

// TestArchitectureShowsTheWings: docs/architecture.md has a row for each wing, and the row names
// each room in it.
func TestArchitectureShowsTheWings(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `internal/([a-z]+)` \\| (.*)$").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	wings := slices.Sorted(slices.Values(slices.Concat(floors...)))
	if got := slices.Sorted(maps.Keys(rows)); !slices.Equal(got, wings) {
		t.Errorf("docs/architecture.md has rows for the wings %v, want %v", got, wings)
	}
	rooms := map[string]bool{}
	for _, s := range sources(t) {
		rooms[room(s.folder)] = true
	}
	for at := range rooms {
		if wing, _ := wingOf(at); rows[wing] != "" && at != "internal/"+wing && !strings.Contains(rows[wing], "`"+path.Base(at)+"`") {
			t.Errorf("docs/architecture.md does not say what %s is for", at)
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
	for _, folder := range append([]string{"internal/core"}, pureNames...) {
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
	same("what rule pure allows", rules["pure"].Allow, values)
	same("what rule pure denies", denied(rules["pure"]), impureImports)
	same("files of rule ebpf", rules["ebpf"].Files, wantEBPF)
	same("what rule ebpf denies", denied(rules["ebpf"]), []string{ebpfPath})
	same("mode of rule pure", []string{rules["pure"].Mode}, []string{"lax"})
	if !slices.Contains(file.Linters.Enable, "depguard") {
		t.Error(".golangci.yml does not enable depguard")
	}
}

// shared are the packages of the manager's folders that nodes have as well.
var shared = []string{"internal/cluster/migrate/registry/access"}

// TestTheDaemonIsLean: weir consists of nothing that only tries, shows or tests it, nor of
// anything of weir-manager and weir-kubernetes; those have nothing of the host's.
func TestTheDaemonIsLean(t *testing.T) {
	for program, without := range map[string][]string{
		"cmd/weir":            {"kube", "lab", "dev", "test", "cluster/manager", "cluster/bus/natsserver", "cluster/migrate/registry", "host/dataplane/fake"},
		"cmd/weir-manager":    {"host", "kube", "lab", "dev", "test"},
		"cmd/weir-kubernetes": {"host", "cluster", "lab", "dev", "test"},
	} {
		for folder, importer := range partsOf(t, program, 5) {
			if strings.HasSuffix(folder, "test") || slices.ContainsFunc(without, func(not string) bool {
				return below(folder, "internal/"+not) && !slices.Contains(shared, folder)
			}) {
				t.Errorf("%s consists of %s, by %s", program, folder, importer)
			}
		}
	}
}

// TestOnlyWeirKubernetesHasItsLibraries: no other package imports them, so that they are
// neither in weir nor in weir-lab.
func TestOnlyWeirKubernetesHasItsLibraries(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			if !below(s.folder, "internal/kube") && slices.ContainsFunc(clusterLibraries, func(l string) bool { return below(imported, l) }) {
				t.Errorf("%s imports %s; only internal/kube does", s.path, imported)
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
		if !pure(s.folder) {
			continue
		}
		for _, imported := range s.imports {
			if !slices.Contains(values, imported) && slices.ContainsFunc(impureImports, func(p string) bool { return below(imported, p) }) {
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
			return !slices.Contains(values, imported) && slices.ContainsFunc(impureImports, func(p string) bool { return below(imported, p) })
		})
		for _, declared := range s.file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil {
				functions[s.folder+"."+f.Name.Name] = true
			}
		}
	}
	called := map[string]bool{}
	for _, s := range list {
		if !pure(s.folder) {
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

// wingOf returns the wing that a folder is in and its floor, -1 for what is in none.
func wingOf(folder string) (wing string, floor int) {
	inside, is := strings.CutPrefix(folder, "internal/")
	if !is {
		return strings.Split(folder, "/")[0], -1
	}
	wing = strings.Split(inside, "/")[0]
	return wing, slices.IndexFunc(floors, func(wings []string) bool { return slices.Contains(wings, wing) })
}

// pure reports whether a package is a function of its arguments.
func pure(folder string) bool {
	return below(folder, "internal/core") && !strings.HasSuffix(folder, "test") ||
		slices.ContainsFunc(strings.Split(folder, "/"), func(part string) bool { return slices.Contains(pureNames, part) })
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
