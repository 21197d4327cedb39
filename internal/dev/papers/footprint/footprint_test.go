// SPDX-License-Identifier: Apache-2.0

package footprint

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFootprint(t *testing.T) {
	root := t.TempDir()
	if _, err := Block(root); err == nil {
		t.Error("there is no data, and that is no error")
	}
	file := filepath.Join(root, File)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	data := `{"name":"before","commit":"0123456789abcdef","date":"2026-11-20","bytes":66236578,"packages":1030,"start_ms":61.5,"start_cpu_ms":24,"memory":[{"workloads":1000,"resident_kb":50000,"anonymous_kb":10000}],"libraries":{"a":1}}
{"name":"after","commit":"fedcba9876543210","date":"2026-11-23","bytes":57700000,"packages":853,"start_ms":51,"start_cpu_ms":22,"memory":[{"workloads":1000,"resident_kb":40000,"anonymous_kb":9000}],"libraries":{"small":7700000,"large":20000000}}
`
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "|  | before (`0123456789ab`, 2026-11-20) | after (`fedcba987654`, 2026-11-23) |\n|---|---|---|\n" +
		"| program, stripped | 66.2 MB | 57.7 MB |\n| Go packages in it | 1,030 | 853 |\n" +
		"| `weir version`: time, CPU time (medians of 20) | 62 ms, 24 ms | 51 ms, 22 ms |\n" +
		"| memory of `weir agent` with 1,000 workloads: resident, of that anonymous | 51.2 MB, 10.2 MB | 41.0 MB, 9.2 MB |\n\n" +
		"| in the program of `fedcba987654` | MB |\n|---|---|\n| large | 20.0 |\n| small | 7.7 |\n| all others, each below 1 % | 30.0 |\n"
	if got, err := Block(root); got != want || err != nil {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
}
