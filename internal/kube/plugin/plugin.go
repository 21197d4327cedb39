// SPDX-License-Identifier: Apache-2.0

// Package plugin is "kubectl weir": it shows what the agent on a pod's node says of the pod.
//
//	kubectl weir explain shop/web
//
// asks the API server on which node shop/web is, which of the chart's pods is there, and has
// "/weir explain shop/web" run in its container agent, as kubectl exec does. So there is no port
// and no program in between, and the output is that of weir. The commands are those that look:
// a change is made by an annotation.
//
// The user needs the right to get the pod, to list pods in Weir's namespace, and to create
// pods/exec there. The last one is that of an administrator.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientexec "k8s.io/client-go/util/exec"

	"weir/internal/base/version"
	"weir/internal/core/policy"
)

// The exit codes of the plugin itself; those of weir on the node are passed on.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// commands are those of weir that the plugin runs, each with whether it takes the name of a pod.
var commands = map[string]bool{"get": true, "explain": true, "top": false, "status": false, "doctor": false}

// Synopsis is the form of the command line.
const Synopsis = "kubectl weir COMMAND [NAMESPACE/POD] [flags] [-- FLAGS OF WEIR]"

const summary = "Show what Weir's agents say of pods, by the API server."

const body = `
  get       a pod's share, min, max and rate; without a pod, of all pods of each node
  explain   why a pod has its rate
  top       watch the node of a pod, or --node
  status    the agents and their links
  doctor    what is in Weir's way on a node

A pod without a namespace is of the context's. What stands behind -- goes to weir on the node:
kubectl weir get shop/web -- -o json

`

// About says what the plugin is, for its manual page.
const About = summary + "\n" + body

// request is what the command line asks for.
type request struct {
	command   string
	pod       string // its name, "" = none
	namespace string // of the pod, "" = the context's
	node      string // "" = the pod's, or all
	weir      string // namespace of the chart's pods
	more      []string
	config    clientcmd.ClientConfig
}

// Main runs the plugin and returns its exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := parse(args, stdout)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "kubectl weir: "+err.Error())
		return exitUsage
	}
	err = run(ctx, r, streams{stdin, stdout, stderr})
	if exit, ran := errors.AsType[clientexec.CodeExitError](err); ran { // weir has said why
		return exit.Code
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "kubectl weir: "+err.Error())
	return exitFailed
}

// Flags returns the command line's flags, for the manual page (internal/dev/manual).
func Flags() *pflag.FlagSet {
	fs, _ := newFlags(&request{})
	return fs
}

// newFlags returns the flags that set r. After they are parsed, finish returns whether the version
// is asked for, and where the API server is.
func newFlags(r *request) (fs *pflag.FlagSet, finish func() (show bool, config clientcmd.ClientConfig)) {
	fs = pflag.NewFlagSet("kubectl weir", pflag.ContinueOnError)
	fs.StringVar(&r.node, "node", "", "`NAME` of the node to ask, instead of the pod's or of all")
	fs.StringVar(&r.weir, "weir-namespace", "weir", "`NAMESPACE` of Weir's own pods")
	show := fs.Bool("version", false, "print the version")
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	fs.StringVar(&rules.ExplicitPath, "kubeconfig", "", "`FILE` that says where the API server is (default: as kubectl)")
	overrides := &clientcmd.ConfigOverrides{}
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.Namespace.ShortName = "n"
	clientcmd.BindOverrideFlags(overrides, fs, flags)
	return fs, func() (bool, clientcmd.ClientConfig) {
		return *show, clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
}

// parse reads the command line.
func parse(args []string, stdout io.Writer) (request, error) {
	var r request
	fs, finish := newFlags(&r)
	fs.SetOutput(stdout)
	fs.Usage = func() { fmt.Fprint(stdout, summary+"\n\nUsage: "+Synopsis+"\n"+body+fs.FlagUsages()) }
	if err := fs.Parse(args); err != nil {
		return r, err
	}
	show, config := finish()
	if show {
		fmt.Fprintln(stdout, "kubectl-weir "+version.String())
		return r, pflag.ErrHelp
	}
	r.config = config
	words := fs.Args()
	if at := fs.ArgsLenAtDash(); at >= 0 {
		words, r.more = words[:at], words[at:]
	}
	return r, r.read(words)
}

// read takes the words that are not flags: a command, and a pod if it takes one.
func (r *request) read(words []string) error {
	var names []string
	for name := range commands {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(words) == 0 {
		return errors.New("no command; write one of " + strings.Join(names, ", ") + ", see --help")
	}
	r.command = words[0]
	if _, known := commands[r.command]; !known {
		return fmt.Errorf("%q: kubectl weir only looks, and annotations change what holds; %s", r.command, policy.DidYouMean(r.command, names))
	}
	if len(words) > 2 {
		return fmt.Errorf("%q is not expected; write one pod, and flags of weir behind --", words[2])
	}
	if len(words) == 2 {
		namespace, pod, both := strings.Cut(words[1], "/")
		if !both {
			namespace, pod = "", words[1]
		}
		if pod == "" || both && namespace == "" || strings.Contains(pod, "/") {
			return fmt.Errorf("%q: write NAMESPACE/POD", words[1])
		}
		r.namespace, r.pod = namespace, pod
	}
	if r.command == "explain" && r.pod == "" {
		return errors.New("explain: of which pod is missing; write kubectl weir explain NAMESPACE/POD")
	}
	if r.pod != "" && r.node != "" {
		return fmt.Errorf("--node %s and a pod: the pod says the node; leave one out", r.node)
	}
	return nil
}
