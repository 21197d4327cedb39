// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"weir/internal/api"
	"weir/internal/base/cgroup"
	"weir/internal/base/version"
	"weir/internal/core/policy"
	"weir/internal/kube/claims"
	"weir/internal/kube/decide"
	"weir/internal/kube/informer"
	"weir/internal/kube/node"
	"weir/internal/kube/nri"
)

// The exit codes, which are weir's.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// options are what the command line says.
type options struct {
	node       string
	socket     string
	runtime    string
	kubeconfig string
	kubelet    string
	claims     func(context.Context) error // serves claims; nil = none are served
	probes     string                      // socket for kubelet's probes; "" = none
	ask        string                      // the probe that this process asks for, instead of serving
	registered atomic.Bool                 // at kubelet; of no meaning where no claims are served
	idle       bool                        // only wait: the pods of the chart's mode cleanup
	debug      bool
	decide.Config
}

// Main runs weir-kubernetes with the process's arguments and returns its exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(os.Stderr, "weir-kubernetes: "+err.Error())
		return exitUsage
	}
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	if o.ask != "" {
		if err := askProbe(ctx, o.probes, o.ask); err != nil {
			fmt.Fprintln(os.Stderr, "weir-kubernetes: "+err.Error())
			return exitFailed
		}
		return exitOK
	}
	if o.idle {
		<-ctx.Done()
		return exitOK
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if err := connect(ctx, o, log); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "weir-kubernetes: "+err.Error())
		return exitFailed
	}
	return exitOK
}

// defaultWeights are the weights by class of quality of service.
const defaultWeights = "guaranteed=3,burstable=2,besteffort=1"

// About says what the program is, for its manual page.
const About = `Give the pods of a Kubernetes node their shares.
weir-kubernetes runs beside the agent on each node of a cluster, in the pods of the chart. It
follows the container runtime (NRI) and the API server, and tells the agent, by its socket, which
pods there are and what their annotations and those of their namespaces ask for. It serves mins by
claims (DRA) as well.`

// Flags returns the command line's flags, for the manual page (internal/dev/manual).
func Flags() *pflag.FlagSet {
	fs, _, _ := newFlags(&options{})
	return fs
}

// newFlags returns the flags that set o, the text of --weights and whether the version is asked
// for.
func newFlags(o *options) (fs *pflag.FlagSet, weights *string, show *bool) {
	weights = new(string)
	fs = pflag.NewFlagSet("weir-kubernetes", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "`NAME` of this node in the cluster (env NODE_NAME)")
	fs.StringVar(&o.socket, "socket", cmp.Or(os.Getenv("WEIR_SOCKET"), api.DefaultSocket), "`PATH` of the agent's socket (env WEIR_SOCKET)")
	fs.StringVar(&o.runtime, "nri-socket", nri.DefaultSocket, "`PATH` of the container runtime's NRI socket")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` that says where the API server is (default: the cluster that this runs in)")
	fs.StringVar(weights, "weights", defaultWeights, "weights of pods without "+decide.Annotation("weight")+", by class: `CLASS=N,...`")
	fs.StringSliceVar(&o.Forbidden, "forbid", guarded(), "`FIELD`s that annotations of pods may not say, such as min,ingress.min; none: all are allowed")
	fs.StringSliceVar(&o.Restricted, "restrict", nil, "`FIELD`s that annotations of pods may say in namespaces with the label "+decide.AllowPrefix+"FIELD=true only; default: none")
	fs.Uint32Var(&o.MaxWeight, "max-weight", 0, "largest weight `N` that annotations of pods may give; 0: any")
	fs.StringVar(&o.kubelet, "kubelet-dir", claims.DefaultKubelet, "kubelet's `FOLDER`, for mins by claims (DRA); none: claims are not served")
	fs.StringVar(&o.probes, "probe-socket", "", "`PATH` of a socket that answers kubelet's probes; default: none")
	fs.StringVar(&o.ask, "probe", "", "ask the weir-kubernetes at --probe-socket whether it is `ready` or live, and end: exit code 0 or 1")
	fs.BoolVar(&o.idle, "idle", false, "do nothing until told to stop; the pods that have given a node's links back run it")
	fs.BoolVar(&o.debug, "debug", false, "log details")
	return fs, weights, fs.Bool("version", false, "print the version")
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	fs, weights, show := newFlags(o)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if *show {
		fmt.Println("weir-kubernetes " + version.String())
		return o, pflag.ErrHelp
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is not expected; weir-kubernetes takes flags only, see --help", fs.Arg(0))
	}
	if o.idle {
		return o, nil
	}
	if o.ask != "" {
		return o, checkProbe(o.ask, o.probes)
	}
	if o.node == "" {
		return o, errors.New("--node: the node's name is missing; give it, or set NODE_NAME")
	}
	if slices.Equal(o.Forbidden, []string{"none"}) {
		o.Forbidden = nil
	}
	for flag, list := range map[string][]string{"--forbid": o.Forbidden, "--restrict": o.Restricted} {
		for _, field := range list {
			if !slices.Contains(policy.AllNames(), field) {
				return o, fmt.Errorf("%s %q: a policy has no such field; %s", flag, field, policy.DidYouMean(field, policy.AllNames()))
			}
		}
	}
	var err error
	o.Weights, err = parseWeights(*weights)
	return o, err
}

// guarded returns the fields that annotations may not say by default: those that labels may
// not, but the group, which has no part outside of a pod's namespace.
func guarded() []string {
	return slices.DeleteFunc(policy.AllNames(), func(name string) bool { return name == "group" || !policy.FieldOf(name).Guarded })
}

// parseWeights reads "guaranteed=3,burstable=2"; a class that is not named has weight 1.
func parseWeights(text string) (map[decide.QoSClass]uint32, error) {
	classes := map[string]decide.QoSClass{}
	for _, class := range []decide.QoSClass{decide.Guaranteed, decide.Burstable, decide.BestEffort} {
		classes[strings.ToLower(string(class))] = class
	}
	weights := map[decide.QoSClass]uint32{}
	for pair := range strings.SplitSeq(text, ",") {
		if text == "" || text == "none" {
			break
		}
		name, number, _ := strings.Cut(pair, "=")
		class, known := classes[strings.ToLower(strings.TrimSpace(name))]
		if !known {
			return nil, fmt.Errorf("--weights %q: %s", pair, policy.DidYouMean(name, slices.Sorted(maps.Keys(classes))))
		}
		weight, err := policy.ParseWeight(number)
		if err != nil {
			return nil, fmt.Errorf("--weights %q: %w", pair, err)
		}
		weights[class] = weight
	}
	return weights, nil
}

// connect makes the clients of the API server, and serves until ctx ends.
func connect(ctx context.Context, o *options, log *slog.Logger) error {
	cgroup.LimitMemory()
	klog.SetSlogLogger(log)
	config, err := informer.Config(o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	events, err := informer.NewEvents(ctx, config, o.node)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	if o.kubelet != "none" {
		driver := claims.Options{Node: o.node, Agent: api.NewClient(o.socket), Kubelet: o.kubelet, PodUID: os.Getenv("POD_UID"), Ports: claims.HostPorts,
			Registered: func() { o.registered.Store(true) }, Log: log}
		if driver.Client, err = claims.Connect(config); err != nil {
			return fmt.Errorf("API server: %w", err)
		}
		o.claims = func(ctx context.Context) error { return claims.Run(ctx, driver) }
	}
	go func() {
		if err := giveBack(ctx); err != nil {
			log.Debug("memory of the start is not given back", "err", err)
		}
	}()
	return serve(ctx, o, client, events.Warn, node.Times{}, log)
}

// serve runs all parts until ctx ends or one of them fails.
func serve(ctx context.Context, o *options, client metadata.Interface, events func(decide.Ref, string, string), times node.Times, log *slog.Logger) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n := node.New(node.Options{Agent: api.NewClient(o.socket), Events: events, Settings: o.Config, Log: log, Times: times})
	parts := []func() error{
		func() error { return n.Run(ctx) },
		func() error { return nri.Run(ctx, o.runtime, n, n.Silent(), log) },
		func() error { return informer.Run(ctx, client, o.node, n, log) },
	}
	if o.probes != "" {
		parts = append(parts, func() error { return serveProbes(ctx, o.probes, o.checks(n)) })
	}
	if o.claims != nil {
		parts = append(parts, func() error { return o.claims(ctx) })
	}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() {
			err := part()
			cancel(err)
			ended <- err
		}()
	}
	for range parts {
		<-ended
	}
	return context.Cause(ctx)
}
