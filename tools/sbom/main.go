// SPDX-License-Identifier: Apache-2.0

// Sbom writes the bill of materials of a program of Go as SPDX 2.3 (JSON): each module
// that the linker put into it, with version, hash and licence, as the program itself
// names them. The same program gives the same bytes.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

type (
	document struct {
		Version       string         `json:"spdxVersion"`
		DataLicense   string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []pkg          `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	pkg struct {
		Name      string      `json:"name"`
		ID        string      `json:"SPDXID"`
		Version   string      `json:"versionInfo"`
		Location  string      `json:"downloadLocation"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Concluded string      `json:"licenseConcluded"`
		Declared  string      `json:"licenseDeclared"`
		Copyright string      `json:"copyrightText"`
		Comment   string      `json:"comment,omitempty"`
		Checksums []checksum  `json:"checksums,omitempty"`
		Refs      []reference `json:"externalRefs,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const none = "NOASSERTION"

func main() {
	log.SetFlags(0)
	name := flag.String("name", "weir", "`NAME` of the program")
	binary := flag.String("binary", "", "`FILE` to describe")
	licenses := flag.String("licenses", "", "`FILE` with lines of package, version and licence, with tabs between them")
	version := flag.String("version", "", "`VERSION` of the program")
	libbpf := flag.String("libbpf", "", "`VERSION` of the headers that the BPF programs were compiled with")
	epoch := flag.Int64("time", 0, "`SECONDS` since 1970 of the document")
	flag.Parse()
	if err := run(*name, *binary, *licenses, *version, *libbpf, *epoch); err != nil {
		log.Fatal("sbom: ", err)
	}
}

func run(name, binary, licenses, version, libbpf string, epoch int64) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	byPackage, err := readLicenses(licenses)
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	main := pkg{Name: name, ID: "SPDXRef-" + name, Version: version, Location: none, Copyright: none,
		Concluded: "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)", Declared: "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)",
		Comment: "GPL-2.0-only OR BSD-2-Clause are the programs that run in the kernel", Checksums: []checksum{{"SHA256", sum}}}
	doc := document{Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "-" + version,
		Namespace:     "https://spdx.org/spdxdocs/" + name + "-" + version + "-" + sum,
		Creation:      creation{time.Unix(epoch, 0).UTC().Format(time.RFC3339), []string{"Tool: weir-sbom"}},
		Packages:      []pkg{main},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main.ID}}}
	add := func(p pkg, relation string) {
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relationship{main.ID, relation, p.ID})
	}
	add(goPackage("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause", ""), "STATIC_LINK")
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		license := byPackage.of(m.Path)
		if license == "" {
			return fmt.Errorf("module %s has no licence in %s", m.Path, licenses)
		}
		add(goPackage(m.Path, m.Version, license, m.Sum), "STATIC_LINK")
	}
	headers := goPackage("libbpf", libbpf, "LGPL-2.1-only OR BSD-2-Clause", "")
	headers.Refs, headers.Comment = nil, "headers that the programs that run in the kernel were compiled with"
	add(headers, "DEPENDS_ON")
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

// goPackage is a module. sum is its line in go.sum.
func goPackage(path, version, license, sum string) pkg {
	p := pkg{Name: path, ID: "SPDXRef-" + identifier(path), Version: version, Location: none, Copyright: none,
		Concluded: license, Declared: license,
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}}
	if sum != "" {
		p.Comment = "go.sum: " + sum
	}
	return p
}

// identifier is a path with what an SPDX identifier may have.
func identifier(path string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, path)
}

// table has the licences of packages.
type table map[string][]string

// of are the licences of all packages in a module, joined.
func (t table) of(module string) string {
	var found []string
	for path, list := range t {
		if path == module || strings.HasPrefix(path, module+"/") {
			found = append(found, list...)
		}
	}
	for path := module; len(found) == 0 && strings.Contains(path, "/"); {
		path = path[:strings.LastIndex(path, "/")]
		found = t[path]
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " AND ")
}

func readLicenses(path string) (table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := table{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		if len(words) != 3 {
			return nil, fmt.Errorf("%s: line %q is not package, version, licence", path, lines.Text())
		}
		t[words[0]] = append(t[words[0]], words[2])
	}
	return t, lines.Err()
}
