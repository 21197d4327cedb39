// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// generated is the first line of the files of rules.
const generated = "# SPDX-License-Identifier: Apache-2.0\n# Made by go test ./internal/face/server/monitoring -update; edit internal/face/server/monitoring/rules.go instead.\n"

// files returns all files of deploy/monitoring, by name.
func files() map[string][]byte {
	all := map[string][]byte{"weir.rules.yaml": rulesFile(), "weir.rules.test.yaml": testFile()}
	for _, d := range dashboards {
		all[d.file] = d.json()
	}
	return all
}

func rulesFile() []byte {
	var recordings, alerting []yaml.MapSlice
	for _, r := range recorded {
		recordings = append(recordings, yaml.MapSlice{{Key: "record", Value: r.name}, {Key: "expr", Value: r.expr}})
	}
	for _, a := range alerts {
		alerting = append(alerting, yaml.MapSlice{{Key: "alert", Value: a.name}, {Key: "expr", Value: a.expr}, {Key: "for", Value: a.wait},
			{Key: "labels", Value: map[string]string{"severity": a.severity}},
			{Key: "annotations", Value: yaml.MapSlice{{Key: "summary", Value: a.summary}, {Key: "remedy", Value: a.remedy}}}})
	}
	return marshal(yaml.MapSlice{{Key: "groups", Value: []yaml.MapSlice{
		{{Key: "name", Value: "weir-series"}, {Key: "rules", Value: recordings}},
		{{Key: "name", Value: "weir-alerts"}, {Key: "rules", Value: alerting}},
	}}})
}

// testFile returns promtool's test: each alert fires by its bad series within 20 minutes and not
// by its good ones.
func testFile() []byte {
	var tests []yaml.MapSlice
	for _, a := range alerts {
		fires := yaml.MapSlice{{Key: "eval_time", Value: "20m"}, {Key: "alertname", Value: a.name}}
		with := append(slices.Clone(fires), yaml.MapItem{Key: "exp_alerts", Value: []yaml.MapSlice{{
			{Key: "exp_labels", Value: with(a.labels, "severity", a.severity)},
			{Key: "exp_annotations", Value: map[string]string{"summary": a.said, "remedy": filled(a.remedy, a.labels)}}}}})
		tests = append(tests, test(a.name+" fires", a.bad, with), test(a.name+" does not", a.good, fires))
	}
	return marshal(yaml.MapSlice{{Key: "rule_files", Value: []string{"weir.rules.yaml"}}, {Key: "evaluation_interval", Value: "30s"}, {Key: "tests", Value: tests}})
}

func test(name string, values map[string]string, rule yaml.MapSlice) yaml.MapSlice {
	var input []yaml.MapSlice
	for _, s := range slices.Sorted(maps.Keys(values)) {
		input = append(input, yaml.MapSlice{{Key: "series", Value: s}, {Key: "values", Value: values[s]}})
	}
	return yaml.MapSlice{{Key: "name", Value: name}, {Key: "interval", Value: "30s"}, {Key: "input_series", Value: input}, {Key: "alert_rule_test", Value: []yaml.MapSlice{rule}}}
}

func with(labels map[string]string, name, value string) map[string]string {
	all := maps.Clone(labels)
	all[name] = value
	return all
}

// filled returns a template's text for some labels.
func filled(text string, labels map[string]string) string {
	for name, value := range labels {
		text = strings.ReplaceAll(text, "{{ $labels."+name+" }}", value)
	}
	return text
}

func marshal(v any) []byte {
	text, err := yaml.MarshalWithOptions(v, yaml.Indent(2), yaml.IndentSequence(false))
	if err != nil {
		panic(fmt.Sprint("monitoring: ", err)) // texts and lists only
	}
	return append([]byte(generated), text...)
}
