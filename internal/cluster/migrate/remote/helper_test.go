// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// TestMain: a test starts its own program again as another user, which tries to call.
func TestMain(m *testing.M) {
	socket := os.Getenv("WEIR_TEST_CALL")
	if socket == "" {
		os.Exit(m.Run())
	}
	e, err := Open(socket, "docker")
	if err == nil {
		_, err = e.Facts(context.Background())
	}
	fmt.Println("facts:", err)
	os.Exit(0)
}

// engine is a fake that notes what it is asked, and answers as it is told.
type engine struct {
	migrate.Engine
	asked    []string
	login    migrate.Login // of the last step
	err      error
	received []byte
	part     string // what "send" writes before it ends with err
}

func (e *engine) note(format string, args ...any) {
	e.asked = append(e.asked, fmt.Sprintf(format, args...))
}

func (e *engine) Facts(context.Context) (migrate.Facts, error) {
	e.note("facts")
	return migrate.Facts{Engine: "docker", CRIU: "4.2", FreeBytes: 7}, e.err
}
func (e *engine) Describe(_ context.Context, name string) (migrate.Container, error) {
	e.note("describe %s", name)
	return migrate.Container{Name: name, Config: []byte(`{"a":1}`)}, e.err
}
func (e *engine) Lacking(_ context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	e.note("lacking %s", o.Move)
	return []migrate.PreflightFinding{{Code: "name-taken", Refuses: true}}, e.err
}
func (e *engine) Do(_ context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	e.note("do %s %s", step, o.Move)
	e.login = o.Login
	return migrate.StepOutcome{Bytes: 3, Note: "done"}, e.err
}
func (e *engine) Send(_ context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	e.note("send %s %s", p, o.Move)
	_, err := io.WriteString(w, e.part)
	return migrate.StepOutcome{Bytes: int64(len(e.part))}, errors.Join(err, e.err)
}
func (e *engine) Receive(_ context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (out migrate.StepOutcome, err error) {
	e.note("receive %s %s", p, o.Move)
	e.received, err = io.ReadAll(r)
	return migrate.StepOutcome{Raw: int64(len(e.received))}, errors.Join(err, e.err)
}
func (e *engine) Copy(_ context.Context, move string) (string, bool, error) {
	e.note("copy %s", move)
	return "c0ffee", true, e.err
}
func (e *engine) Hold(_ context.Context, o migrate.MoveSpec) error {
	e.note("hold %s", o.Move)
	return e.err
}
func (e *engine) Release(_ context.Context, o migrate.MoveSpec) error {
	e.note("release %s", o.Move)
	return e.err
}

// anything is a guard that permits every call.
type anything struct{}

func (anything) Describe(*Warrant, string) error          { return nil }
func (anything) Lacking(*Warrant, migrate.MoveSpec) error { return nil }
func (anything) Admit(*Warrant) error                     { return nil }
func (anything) Copy(string) error                        { return nil }
func (anything) Take(_ Verb, _ move.Step, _ string, o migrate.MoveSpec) (Passage, error) {
	return Passage{Order: o, Done: func(_ migrate.StepOutcome, err error) error { return err }}, nil
}

var order = migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Container: migrate.Container{Name: "web"}}

// serve starts a helper with a fake engine. ended gets what Serve returned.
func serve(t *testing.T, fake *engine, idle time.Duration, log io.Writer) (e *Engine, socket string, ended chan error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-helper") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() {
		ended <- NewHelper(fake, anything{}, idle, slog.New(slog.NewTextHandler(log, nil))).Serve(ctx, ln)
	}()
	t.Cleanup(cancel)
	e, err = Open(socket, "docker")
	if err != nil {
		t.Fatal(err)
	}
	return e, socket, ended
}

func TestEachCallArrives(t *testing.T) {
	fake := &engine{part: strings.Repeat("memory", 100000)}
	e, _, _ := serve(t, fake, 0, io.Discard)
	ctx := t.Context()
	check := func(got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	f, err := e.Facts(ctx)
	check(f, migrate.Facts{Engine: "docker", CRIU: "4.2", FreeBytes: 7}, err)
	c, err := e.Describe(ctx, "web")
	check(string(c.Config), `{"a":1}`, err)
	list, err := e.Lacking(ctx, order)
	check(list, []migrate.PreflightFinding{{Code: "name-taken", Refuses: true}}, err)
	out, err := e.Do(ctx, move.Freeze, order)
	check(out, migrate.StepOutcome{Bytes: 3, Note: "done"}, err)
	withLogin := order
	withLogin.Login = migrate.Login{User: "m-1.source", Password: "secret"}
	if _, err := e.Do(ctx, move.Push, withLogin); err != nil || fake.login != withLogin.Login {
		t.Errorf("the engine's login is %+v, %v", fake.login, err)
	}
	fake.asked = fake.asked[:len(fake.asked)-1]
	var sent bytes.Buffer
	out, err = e.Send(ctx, migrate.Part{Kind: migrate.PartVolume, Name: "data"}, order, &sent)
	check(out, migrate.StepOutcome{Bytes: 600000}, err)
	check(sent.String(), fake.part, nil)
	out, err = e.Receive(ctx, migrate.Part{Kind: migrate.PartLayer}, order, strings.NewReader("layer"))
	check(out, migrate.StepOutcome{Raw: 5}, err)
	check(string(fake.received), "layer", nil)
	id, running, err := e.Copy(ctx, "m-1")
	check([]any{id, running}, []any{"c0ffee", true}, err)
	check(nil, nil, e.Hold(ctx, order))
	check(nil, nil, e.Release(ctx, order))
	check(fake.asked, []string{"facts", "describe web", "lacking m-1", "do freeze m-1", "send volume data m-1", "receive layer m-1", "copy m-1", "hold m-1", "release m-1"}, nil)
}

func TestDefiniteAnswersStayDefinite(t *testing.T) {
	gone := &move.Error{Code: move.CodeGone, Msg: "the copy is no more", Remedy: "none"}
	for _, wrong := range []error{gone, fmt.Errorf("step: %w", gone), errors.New("who knows")} {
		fake := &engine{err: wrong, part: "half"}
		e, _, _ := serve(t, fake, 0, io.Discard)
		ctx := t.Context()
		_, _, copyErr := e.Copy(ctx, "m-1")
		_, doErr := e.Do(ctx, move.Thaw, order)
		_, sendErr := e.Send(ctx, migrate.Part{Kind: migrate.PartLayer}, order, io.Discard)
		_, receiveErr := e.Receive(ctx, migrate.Part{Kind: migrate.PartLayer}, order, strings.NewReader("x"))
		for verb, err := range map[string]error{"copy": copyErr, "do": doErr, "hold": e.Hold(ctx, order), "send": sendErr, "receive": receiveErr} {
			var definite *move.Error
			switch {
			case err == nil:
				t.Errorf("%s: succeeds though the engine says %q", verb, wrong)
			case errors.As(err, &definite) != errors.As(wrong, new(*move.Error)):
				t.Errorf("%s: %q is definite: %v; the engine said %q", verb, err, definite != nil, wrong)
			case definite != nil && *definite != *gone:
				t.Errorf("%s: %+v; the engine said %+v", verb, definite, gone)
			case definite == nil && !strings.Contains(err.Error(), "who knows"):
				t.Errorf("%s: %q does not say what the engine said", verb, err)
			}
		}
	}
}

// A sender that fails must not look like the end of the part.
func TestPartThatIsCutOffIsNotWhole(t *testing.T) {
	fake := &engine{}
	e, _, _ := serve(t, fake, 0, io.Discard)
	_, err := e.Receive(t.Context(), migrate.Part{Kind: migrate.PartLayer}, order, io.MultiReader(strings.NewReader("half"), failing{}))
	if err == nil {
		t.Error("receive succeeds with half a part")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the source has gone") }

func TestCallsThatAreTooLongOrUnknownAreRefused(t *testing.T) {
	fake := &engine{}
	e, _, _ := serve(t, fake, 0, io.Discard)
	long := order
	long.Container.Config = []byte(`"` + strings.Repeat("x", MaxCall) + `"`)
	if _, err := e.Do(t.Context(), move.Create, long); err == nil || !strings.Contains(err.Error(), "are the most") {
		t.Errorf("a call of more than 1 MiB: %v", err)
	}
	for path, body := range map[string]string{
		Path + "do":      "{" + strings.Repeat(" ", MaxCall) + "}",
		Path + "receive": "\xff\xff\xff\xff{}",
		Path + "run":     `{"order":{}}`,
		Path + "hold":    `{}`,
		Path + "send":    `{}`,
		"/etc/passwd":    "",
	} {
		resp, err := e.peer.HTTP.Post("http://helper"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("%s: accepted", path)
		}
	}
	if len(fake.asked) > 0 {
		t.Errorf("the engine was asked: %q", fake.asked)
	}
}

// A local user without rights cannot connect to the socket as systemd makes it, and is not answered
// where it was left open to all.
func TestHelperServesRootAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	unit, err := os.ReadFile("../../../../deploy/weir-migrate.socket")
	if err != nil || !strings.Contains(string(unit), "\nSocketMode=0600\n") || strings.Contains(string(unit), "SocketUser") {
		t.Errorf("weir-migrate.socket is not root's alone, with mode 0600: %v\n%s", err, unit)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fake := &engine{}
	_, socket, _ := serve(t, fake, 0, log)
	program := filepath.Join(filepath.Dir(socket), "test")
	if err := exec.Command("cp", os.Args[0], program).Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode      os.FileMode
		connected bool
	}{{0o600, false}, {0o666, true}} {
		if err := os.Chmod(socket, c.mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program)
		cmd.Env = []string{"WEIR_TEST_CALL=" + socket}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		if !strings.HasPrefix(string(said), "facts: migration helper at ") || len(fake.asked) > 0 || strings.Contains(string(said), "permission denied") == c.connected {
			t.Errorf("mode %o: user nobody: %s, the engine was asked %q", c.mode, said, fake.asked)
		}
		if text, err := os.ReadFile(log.Name()); err != nil || strings.Contains(string(text), "uid=65534") != c.connected {
			t.Errorf("mode %o: the log has: %v\n%s", c.mode, err, text)
		}
	}
}

func TestHelperEndsWhenNobodyCalls(t *testing.T) {
	e, _, ended := serve(t, &engine{}, 2*time.Second, io.Discard)
	for range 25 { // calls keep it
		time.Sleep(100 * time.Millisecond)
		if _, err := e.Facts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	select {
	case err := <-ended:
		if err != nil || time.Since(begun) < time.Second {
			t.Errorf("ended after %v with %v", time.Since(begun), err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end")
	}
}

func TestNoHelper(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), "docker"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
