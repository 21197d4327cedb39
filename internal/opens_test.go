// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// past are the files of the programs that open a path by themselves, and why they need not ask
// package safepath, which refuses what another user could change or exchange.
var past = map[string]string{
	"host/agent/ledger/ledger.go":             kernels,
	"base/atomicfile/atomicfile.go":           "a folder that its caller has examined, to sync it",
	"base/audit/log.go":                       "/var/log may belong to a group; it refuses links and what it has not made",
	"base/audit/read.go":                      "as audit/log.go",
	"base/cgroup/cgroup.go":                   kernels,
	"base/cgroup/inner.go":                    kernels,
	"base/cgroup/some.go":                     kernels,
	"base/cgroup/legacy.go":                   kernels,
	"base/cgroup/memory.go":                   kernels,
	"face/cli/simulate.go":                    users,
	"cluster/bus/natsserver/server.go":        managers,
	"cluster/manager/statedir/database.go":    managers,
	"cluster/manager/statedir/owner.go":       managers + ", from which no path leads out",
	"cluster/manager/statedir/restore.go":     "a folder of its own, new in one that is examined",
	"cluster/manager/statedir/snapshot.go":    managers + ", from which no path leads out",
	"cluster/migrate/docker/cgroup/cgroup.go": kernels,
	"cluster/migrate/docker/daemon/daemon.go": kernels + ", and the bundle of an engine of root",
	"cluster/migrate/docker/folder.go":        engines,
	"cluster/migrate/docker/load.go":          "a file of its own, new",
	"cluster/migrate/docker/mounts.go":        "the mount namespace of an engine of root, over no link",
	"cluster/migrate/docker/receive.go":       engines,
	"cluster/migrate/docker/source.go":        engines,
	"cluster/migrate/journal.go":              "the folder of state, which is examined at the start",
	"cluster/migrate/pack/node.go":            engines + ", and what is below it, over no link",
	"cluster/migrate/pack/unpack.go":          engines + ", by descriptor",
	"cluster/migrate/podman/checkpoint.go":    "podman's folder below /run, of root's",
	"cluster/migrate/podman/parts.go":         "the folder of state, which is examined at the start",
	"cluster/migrate/process/process.go":      kernels,
	"cluster/migrate/process/strangers.go":    kernels,
	"cluster/migrate/process/undumpable.go":   kernels,
	"cluster/migrate/registry/registry.go":    managers,
	"cluster/migrate/remains/end.go":          kernels,
	"cluster/migrate/remains/freeze.go":       kernels,
	"cluster/migrate/remains/half.go":         kernels,
	"cluster/migrate/remains/rules.go":        kernels,
	"cluster/migrate/remains/state.go":        kernels,
	"cluster/profile/perf.go":                 kernels,
	"cluster/profile/reader.go":               kernels,
	"config/files.go":                         "weir config check, for the user who asks",
	"config/switch.go":                        users,
	"config/watch.go":                         "it reads nothing: what is told of is read by package safepath",
	"host/daemon/changes.go":                  kernels,
	"host/dataplane/bpf/ecn.go":               pins,
	"host/dataplane/bpf/inside.go":            pins,
	"host/dataplane/bpf/missing.go":           pins,
	"host/dataplane/bpf/object.go":            pins,
	"host/dataplane/device/claim.go":          kernels,
	"host/dataplane/device/conn.go":           namespaces,
	"host/dataplane/goodput/meter.go":         kernels,
	"host/dataplane/mark/inner.go":            namespaces,
	"host/dataplane/mark/pinned/pinned.go":    pins,
	"host/dataplane/mark/bypass/bypass.go":    pins,
	"host/dataplane/mark/group/group.go":      kernels,
	"host/dataplane/mark/pin.go":              pins,
	"host/discover/look/kernel.go":            kernels,
	"host/discover/capable/capable.go":        kernels,
	"host/discover/files.go":                  "it reads nothing: it says that a list may have changed",
	"host/discover/links.go":                  kernels + ", and namespaces that an engine of root has made",
	"host/discover/machine/proxmox.go":        "/etc/pve, Proxmox's own",
	"host/discover/machine/qemu.go":           kernels + ", and /run/libvirt, libvirt's own",
	"host/discover/within/within.go":          namespaces,
	"host/discover/process.go":                kernels,
	"host/doctor/look.go":                     "the kernel's, and its configuration in /boot",
	"host/doctor/looklinks.go":                "what systemd-networkd and NetworkManager say of a device below /run, and their files, for the user who asks",
	"kube/claims/driver.go":                   "the folders of kubelet's plugins, which are root's",
	"kube/claims/host.go":                     kernels,
	"kube/informer/informer.go":               users + ", or the pod's own account",
	"kube/probe.go":                           "the pod's own emptyDir, which kubelet makes with mode 0777; its holder can fail probes alone",
	"base/nsthread/nsthread.go":               namespaces,
	"host/rootlock/cpu.go":                    kernels,
	"base/program/release.go":                 kernels,
	"base/safepath/configmap.go":              kernels,
	"base/safepath/dir.go":                    "itself",
	"base/safepath/safepath.go":               "itself",
	"base/safepath/socket.go":                 "itself",
	"base/safepath/walk.go":                   "itself",
	"api/rest/peer.go":                        kernels,
	"host/verify/host.go":                     kernels,
}

const (
	kernels = "the kernel's /proc, /sys or cgroups"
	users   = "a file that a user names for one command of his own"
	engines = "the folder of an engine of root"
	pins    = "the file system of BPF, where CAP_BPF alone makes pins, and whose folder is made closed to others"
	// namespaces are used by descriptor: another file than one of the kernel's is refused.
	namespaces = "a file of a network namespace"
	managers   = "the manager's folder, of the user that it runs as"
)

// openers are the functions that open, make or give away a file by its path, by the package that
// has them: those of the standard library and of all modules that the programs use.
var openers = map[string]string{
	"os":                           "Open OpenFile OpenRoot OpenInRoot ReadFile Create CreateTemp WriteFile Chmod Chown Lchown Chtimes Truncate DirFS CopyFS",
	"io/ioutil":                    "ReadFile WriteFile TempFile",
	"syscall":                      openCalls,
	"golang.org/x/sys/unix":        openCalls,
	"net":                          "ListenUnix ListenUnixgram",
	"net/http":                     "Dir ServeFile FileServer",
	"crypto/tls":                   "LoadX509KeyPair",
	"html/template":                "ParseFiles ParseGlob",
	"text/template":                "ParseFiles ParseGlob",
	"archive/zip":                  "OpenReader",
	"plugin":                       "Open",
	"database/sql":                 "Open",
	"go.etcd.io/bbolt":             "Open",
	"github.com/fsnotify/fsnotify": "NewWatcher NewBufferedWatcher",
	"github.com/vishvananda/netns": "GetFromPath GetFromName GetFromDocker NewNamed",
	"github.com/cilium/ebpf":       "LoadPinnedMap LoadPinnedProgram LoadCollectionSpec",
	"github.com/cilium/ebpf/link":  "LoadPinnedLink AttachCgroup OpenExecutable",
	"github.com/cilium/ebpf/btf":   "LoadSpec LoadSplitSpec",
	"github.com/nats-io/nats-server/v2/server":                                   "NewServer ProcessConfigFile",
	"k8s.io/client-go/tools/clientcmd":                                           "BuildConfigFromFlags LoadFromFile",
	"k8s.io/client-go/rest":                                                      "InClusterConfig",
	"k8s.io/dynamic-resource-allocation/kubeletplugin":                           "Start",
	"github.com/distribution/distribution/v3/registry/storage/driver/filesystem": "New FromParameters",
}

const openCalls = "Open Openat Openat2 OpenByHandleAt OpenTree Creat Chmod Fchmodat Chown Lchown Fchownat Truncate Mknod Mknodat Mkfifo"

// opened returns the openers that a file of Go calls or passes on, such as "os.Open".
func opened(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imported := map[string]string{} // path by name in the file
	for _, spec := range file.Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		name := moduleVersion.ReplaceAllString(from, "")
		name = name[strings.LastIndexByte(name, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = from
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 && strings.HasPrefix(text(call.Args[0]), `"unix`) {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Listen" || s.Sel.Name == "ListenPacket") {
				found = append(found, "Listen(unix)")
			}
		}
		if s, ok := n.(*ast.SelectorExpr); ok {
			if slices.Contains(strings.Fields(openers[imported[text(s.X)]]), s.Sel.Name) {
				found = append(found, text(s.X)+"."+s.Sel.Name)
			}
		}
		return true
	})
	return found, nil
}

var moduleVersion = regexp.MustCompile(`/v\d+$`)

// text returns a name or a literal as it is written, "" for any other expression.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.BasicLit:
		return e.Value
	}
	return ""
}

// TestWhatIsOpenedPastSafepath: each file of the programs that opens a path by itself is known
// here, with the reason for it.
func TestWhatIsOpenedPastSafepath(t *testing.T) {
	left := maps.Clone(past)
	for _, top := range []string{".", "../cmd"} {
		err := filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && ofTests(path) {
				return filepath.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			by, err := opened(path)
			if len(by) > 0 {
				if _, known := past[path]; !known {
					t.Errorf("%s opens a path by %s: do it by package safepath, or say here why not", path, strings.Join(by, ", "))
				}
				delete(left, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range left {
		t.Errorf("%s opens nothing by itself any more", path)
	}
}

// Each way to open a path is found, whatever a package is called in a file and wherever the call
// stands.
func TestOpened(t *testing.T) {
	for body, want := range map[string]string{
		`import "os"; func f() { _ = "/x"; os.Open("/etc/" + "x") }`:                            "os.Open",
		`import "os"; var f = os.OpenRoot`:                                                      "os.OpenRoot",
		`import sys "golang.org/x/sys/unix"; func f() { g(sys.Openat2(1, "", nil)) }`:           "sys.Openat2",
		`import "go.etcd.io/bbolt"; func f() { bbolt.Open("", 0, nil) }`:                        "bbolt.Open",
		`import "github.com/nats-io/nats-server/v2/server"; func f() { server.NewServer(nil) }`: "server.NewServer",
		`import "net"; func f() { net.Listen("unix", "/run/x") }`:                               "Listen(unix)",
		`import "net"; func f(c net.ListenConfig) { c.Listen(ctx, "tcp", "") }`:                 "",
		`import "os"; func f(r *os.Root) { r.Open("x"); os.Stat("x") }`:                         "",
	} {
		path := filepath.Join(t.TempDir(), "x.go")
		if err := os.WriteFile(path, []byte("package x\n"+body), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := opened(path)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", body, got, err, want)
		}
	}
}

// ofTests reports whether a folder has no part of a program that root runs on a host.
func ofTests(path string) bool {
	switch path {
	case "lab", "dev", "test", "base/verdict":
		return true
	}
	name := filepath.Base(path)
	return name == "counter" || name == "testdata" || strings.HasSuffix(name, "test")
}
