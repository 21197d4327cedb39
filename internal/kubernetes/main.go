// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/kubernetes/informer"
	"weir/internal/kubernetes/nri"
	"weir/internal/version"
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
	if err := run(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "weir-kubernetes: "+err.Error())
		return exitFailed
	}
	return exitOK
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	fs := pflag.NewFlagSet("weir-kubernetes", pflag.ContinueOnError)
	fs.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "`NAME` of this node in the cluster (env NODE_NAME)")
	fs.StringVar(&o.socket, "socket", cmp.Or(os.Getenv("WEIR_SOCKET"), api.DefaultSocket), "`PATH` of the agent's socket (env WEIR_SOCKET)")
	fs.StringVar(&o.runtime, "nri-socket", "/var/run/nri/nri.sock", "`PATH` of the container runtime's NRI socket")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE` that says where the API server is (default: the cluster that this runs in)")
	show := fs.Bool("version", false, "print the version")
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
	if o.node == "" {
		return o, errors.New("--node: the node's name is missing; give it, or set NODE_NAME")
	}
	return o, nil
}

// run serves until ctx ends.
func run(ctx context.Context, o options) error {
	if _, err := informer.Connect(o.kubeconfig); err != nil {
		return err
	}
	return nri.Run(ctx, o.runtime)
}
