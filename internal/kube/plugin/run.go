// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// What the chart calls its pods and their container.
const (
	label     = "app.kubernetes.io/name=weir"
	container = "agent"
	program   = "/weir"
)

// streams are those of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// cluster speaks to the API server. It knows pods and no other kind: the clientset of all kinds is
// 30 MB more of program.
type cluster struct {
	config *rest.Config
	client *rest.RESTClient
	params runtime.ParameterCodec
}

func connect(r request) (cluster, error) {
	config, err := r.config.ClientConfig()
	if err != nil {
		return cluster{}, fmt.Errorf("API server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return cluster{}, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config = rest.AddUserAgent(config, "kubectl-weir")
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return cluster{}, fmt.Errorf("API server: %w", err)
	}
	return cluster{config, client, runtime.NewParameterCodec(scheme)}, nil
}

// run carries out a request: on the node of its pod, on --node, or on all nodes.
func run(ctx context.Context, r request, s streams) error {
	c, err := connect(r)
	if err != nil {
		return err
	}
	node, argv := r.node, []string{program, r.command}
	if r.pod != "" {
		if r.namespace == "" {
			if r.namespace, _, err = r.config.Namespace(); err != nil {
				return err
			}
		}
		if node, err = c.nodeOf(ctx, r.namespace, r.pod); err != nil {
			return err
		}
		if commands[r.command] {
			argv = append(argv, r.namespace+"/"+r.pod)
		}
	}
	agents, err := c.agents(ctx, r.weir, node)
	if err != nil {
		return err
	}
	if r.command == "top" && len(agents) > 1 {
		return errors.New("top: of which node is missing; give --node NAME or a pod")
	}
	argv = append(argv, r.more...)
	var ended, unreached error // weir's own end, which it has given the reason of; a node that was not reached
	for i, agent := range agents {
		if len(agents) > 1 {
			if i > 0 {
				fmt.Fprintln(s.out)
			}
			fmt.Fprintf(s.out, "node %s\n", agent.Spec.NodeName)
		}
		if err := c.exec(ctx, agent, argv, s); err != nil {
			if exit, ran := errors.AsType[clientexec.CodeExitError](err); ran {
				ended = exit
				continue
			}
			unreached = errors.Join(unreached, fmt.Errorf("node %s: %w", agent.Spec.NodeName, err))
		}
	}
	return cmp.Or(unreached, ended)
}

// nodeOf returns the node of a pod.
func (c cluster) nodeOf(ctx context.Context, namespace, name string) (string, error) {
	pod := &corev1.Pod{}
	err := c.client.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(pod)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("there is no pod %s/%s; kubectl -n %s get pods lists them", namespace, name, namespace)
	case err != nil:
		return "", fmt.Errorf("pod %s/%s: %w", namespace, name, err)
	case pod.Spec.NodeName == "":
		return "", fmt.Errorf("pod %s/%s is on no node yet; kubectl -n %s describe pod %s says why", namespace, name, namespace, name)
	}
	return pod.Spec.NodeName, nil
}

// agents returns the running pods of the chart on a node, or with "" on all, by node.
func (c cluster) agents(ctx context.Context, namespace, node string) ([]corev1.Pod, error) {
	options := metav1.ListOptions{LabelSelector: label}
	if node != "" {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	list := &corev1.PodList{}
	if err := c.client.Get().Namespace(namespace).Resource("pods").VersionedParams(&options, c.params).Do(ctx).Into(list); err != nil {
		return nil, fmt.Errorf("pods of Weir in namespace %s: %w", namespace, err)
	}
	running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	if len(running) == 0 {
		return nil, fmt.Errorf("no agent runs on %s; kubectl -n %s get pods -o wide -l %s shows those there are, --weir-namespace names another namespace", cmp.Or(node, "any node"), namespace, label)
	}
	slices.SortFunc(running, func(a, b corev1.Pod) int { return cmp.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	return running, nil
}

// exec runs a command in the agent's container. Its error is a CodeExitError where the command ran.
func (c cluster) exec(ctx context.Context, agent corev1.Pod, argv []string, s streams) error {
	options := remotecommand.StreamOptions{Stdout: s.out, Stderr: s.err}
	if restore, sizes := terminal(s); restore != nil {
		defer restore()
		options.Stdin, options.Stderr, options.Tty, options.TerminalSizeQueue = s.in, nil, true, sizes
	}
	request := c.client.Post().Namespace(agent.Namespace).Resource("pods").Name(agent.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: argv, Stdin: options.Stdin != nil, Stdout: true, Stderr: options.Stderr != nil, TTY: options.Tty}, c.params)
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, options)
}

// size is that of a terminal, told once.
type size struct{ is *remotecommand.TerminalSize }

// Next implements remotecommand.TerminalSizeQueue.
func (s *size) Next() *remotecommand.TerminalSize {
	is := s.is
	s.is = nil
	return is
}

// terminal makes the terminal raw where both ends are one, and returns how to undo it; nil = they
// are not.
func terminal(s streams) (restore func(), sizes remotecommand.TerminalSizeQueue) {
	in, isFile := s.in.(*os.File)
	out, both := s.out.(*os.File)
	if !isFile || !both || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil
	}
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return nil, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, nil
	}
	return func() { _ = term.Restore(int(in.Fd()), before) }, &size{&remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}}
}
