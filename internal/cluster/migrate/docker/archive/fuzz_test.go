// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"testing"

	"weir/internal/cluster/migrate/pack"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// packed returns an archive of files, as tar.
func packed(f testing.TB, files ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i+1 < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return out.Bytes()
}

// FuzzSurvey: judging an archive of an image costs what one input may, whatever is in it.
func FuzzSurvey(f *testing.F) {
	config := `{"rootfs":{"type":"layers","diff_ids":["sha256:x"]}}`
	list, err := json.Marshal([]map[string]any{{"Config": "c.json", "RepoTags": []string{"a:b"}, "Layers": []string{"l.tar"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed(f, "manifest.json", string(list), "c.json", config, "l.tar", string(packed(f, "a", "x"))))
	for _, text := range boundtest.Texts(bound.Message) {
		f.Add(packed(f, "manifest.json", text, "c.json", text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			_, _ = Survey(bytes.NewReader(data), "sha256:x", pack.StreamBounds{Bytes: 1 << 20, Entries: 1000})
		})
	})
}
