// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/core/event"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
)

// Tell says what is told to whom, see package event.
type Tell struct {
	Events  []string // kinds for webhook and command; nil = all
	Drops   event.Bounds
	Webhook Webhook
	Command Command
}

// Webhook is an HTTP server that takes events.
type Webhook struct {
	URL        string        // "" = there is none
	SecretFile string        // holds the key of signatures; "" = requests are not signed
	CA         string        // file with the authorities of the server's certificate; "" = the host's
	Timeout    time.Duration // of one request
}

// Command is a program that is run for each event.
type Command struct {
	Run     []string      // program and arguments; nil = there is none
	Timeout time.Duration // of one run
}

// Wants reports whether webhook and command are told of a kind of event.
func (t Tell) Wants(kind string) bool { return t.Events == nil || slices.Contains(t.Events, kind) }

// DefaultTell names no webhook and no command.
func DefaultTell() Tell {
	return Tell{Drops: event.DefaultBounds, Webhook: Webhook{Timeout: 10 * time.Second}, Command: Command{Timeout: 30 * time.Second}}
}

// longestTell bounds how long one request or one run may take: events wait meanwhile.
const longestTell = 5 * time.Minute

func (t *Tell) read(fields node) {
	fields.fields([]string{"events", "drops", "webhook", "command"}, func(key string, value node) {
		switch key {
		case "events":
			t.readEvents(value)
		case "drops":
			t.readDrops(value)
		case "webhook":
			t.Webhook.read(value)
		case "command":
			t.Command.read(value)
		}
	})
}

func (t *Tell) readEvents(list node) {
	if !list.given() {
		return
	}
	t.Events = []string{}
	list.items(func(item node) {
		text, ok := item.text()
		if ok && !slices.Contains(event.Names(), text) {
			item.wrong("%q is no kind of event; %s", text, policy.DidYouMean(text, event.Names()))
		}
		t.Events = append(t.Events, text)
	})
}

// readDrops reads a bound for all reasons ("10%", "off") or one for each.
func (t *Tell) readDrops(value node) {
	if text, single := value.single(); single {
		if text != "" {
			readBound(value, &t.Drops.Any)
		}
		return
	}
	known := append([]string{"any"}, event.DropReasons...)
	value.fields(known, func(reason string, bound node) {
		if reason == "any" {
			readBound(bound, &t.Drops.Any)
			return
		}
		if bound.given() {
			part := t.Drops.Any
			readBound(bound, &part)
			if t.Drops.ByReason == nil {
				t.Drops.ByReason = map[string]float64{}
			}
			t.Drops.ByReason[reason] = part
		}
	})
}

func readBound(value node, into *float64) {
	if text, ok := value.text(); ok && slices.Contains([]string{"off", "false", "no"}, strings.ToLower(text)) {
		*into = 0
		return
	}
	readShare(value, into)
}

func (w *Webhook) read(fields node) {
	fields.fields([]string{"url", "secret_file", "ca", "timeout"}, func(key string, value node) {
		switch key {
		case "url":
			if text, ok := value.text(); ok {
				value.refuse(checkWebhook(text))
				w.URL = text
			}
		case "secret_file":
			readPath(value, &w.SecretFile)
		case "ca":
			readPath(value, &w.CA)
		case "timeout":
			readTimeout(value, &w.Timeout)
		}
	})
	if fields.given() && w.URL == "" {
		fields.wrong("url is missing; name the server, e.g. url: https://alerts.example.org/weir")
	}
}

// checkWebhook refuses an address that cannot be a webhook's. What the refusal shows of it
// has no path and no password, which may be secrets.
func checkWebhook(text string) error {
	refuse := func(shown, msg, remedy string) error {
		return &invalid.Error{Value: shown, Msg: msg, Remedy: remedy}
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return refuse("", "is no address", "give one such as https://alerts.example.org/weir")
	}
	switch shown := u.Scheme + "://" + u.Host; {
	case u.Scheme != "https" && u.Scheme != "http":
		return refuse(shown, "is neither https nor http", "give one such as https://alerts.example.org/weir")
	case u.Port() != "" && !isPort(u.Port()):
		return refuse(shown, "has a port that there is not", "give one from 1 to 65535, or none")
	case u.User != nil:
		return refuse(shown, "has a user or a password, which every user who may read this file can read", "take it out; secret_file signs the requests")
	case u.Fragment != "":
		return refuse(shown, "has a fragment, which is not sent", "take out what follows the #")
	case u.Scheme == "http" && !tlsfile.Loopback(u.Hostname()):
		return refuse(shown, "is not on the loopback, and without TLS every host on the path can read and change events", "give an https:// address, or a proxy at 127.0.0.1")
	}
	return nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

func (c *Command) read(fields node) {
	fields.fields([]string{"run", "timeout"}, func(key string, value node) {
		switch key {
		case "run":
			value.items(func(item node) {
				if text, ok := item.text(); ok {
					c.Run = append(c.Run, text)
				}
			})
			if len(c.Run) > 0 && !path.IsAbs(c.Run[0]) {
				value.wrong("%q is no absolute path; begin the program's with a slash, e.g. run: [/usr/local/sbin/weir-event]", c.Run[0])
			}
		case "timeout":
			readTimeout(value, &c.Timeout)
		}
	})
	if fields.given() && len(c.Run) == 0 {
		fields.wrong("run is missing; name the program and its arguments, e.g. run: [/usr/local/sbin/weir-event]")
	}
}

func readTimeout(value node, into *time.Duration) {
	readDuration(value, into)
	if *into > longestTell {
		value.wrong("%q is too long: events wait meanwhile; give %s or less", *into, longestTell)
	}
}
