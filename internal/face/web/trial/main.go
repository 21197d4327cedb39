// SPDX-License-Identifier: Apache-2.0

//go:build js && wasm

// Trial is the program behind the view Try where there is no agent: in the documentation's site,
// whose page runs it as WebAssembly. It gives the page one function,
//
//	weirDivide(query) // the answer of GET /v1/divide?query as JSON, or {"error": why not}
//
// scripts/site builds it.
package main

import (
	"encoding/json"
	"net/url"
	"syscall/js"

	"weir/internal/core/policy/division"
)

func main() {
	js.Global().Set("weirDivide", js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := divide(args[0].String())
		if err != nil {
			text, _ = json.Marshal(map[string]string{"error": err.Error()}) // of a string it cannot fail
		}
		return string(text)
	}))
	select {} // the function is there for as long as the page
}

func divide(query string) ([]byte, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	d, err := division.Of(values.Get("capacity"), values["workload"])
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}
