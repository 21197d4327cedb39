// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// repeated returns where in a JSON text a key stands for the second time in its object, such as
// body.change.min, "" = nowhere. The schema sees the last of two values alone, and other readers
// take the first: such a text asks for two things at once.
func repeated(text []byte) (at string) {
	d := json.NewDecoder(bytes.NewReader(text))
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return "" // the text is at its end: it was parsed before
		}
		var top *level
		if len(levels) > 0 {
			top = &levels[len(levels)-1]
		}
		switch delim, is := token.(json.Delim); {
		case is && (delim == '}' || delim == ']'):
			levels = levels[:len(levels)-1]
		case top != nil && top.expectsKey():
			top.key = token.(string)
			if top.keys[top.key] {
				return place(levels)
			}
			top.keys[top.key], top.value = true, true
		default:
			if top != nil {
				top.value, top.index = false, top.index+1
			}
			if is {
				levels = append(levels, newLevel(delim))
			}
		}
	}
}

// level is an object or a list that the text is inside of.
type level struct {
	keys  map[string]bool // of an object; nil = a list
	key   string
	value bool // the value of key is next
	index int  // of the next value
}

func newLevel(delim json.Delim) level {
	if delim == '{' {
		return level{keys: map[string]bool{}}
	}
	return level{}
}

func (l *level) expectsKey() bool { return l.keys != nil && !l.value }

// place returns the way to the present value as huma writes it: body.queues[0].name.
func place(levels []level) string {
	at := "body"
	for _, l := range levels {
		if l.keys != nil {
			at += "." + l.key
		} else {
			at += "[" + strconv.Itoa(l.index-1) + "]"
		}
	}
	return at
}
