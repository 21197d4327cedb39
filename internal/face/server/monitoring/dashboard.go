// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"weir/internal/face/server"
)

// Grafana's names of units.
const (
	bits    = "bps"
	bytes   = "bytes"
	packets = "pps"
	part    = "percentunit"
	count   = "short"
)

// The kinds of panels.
const (
	series = "timeseries"
	stack  = "stack" // a time series whose areas are stacked
	number = "stat"
	rows   = "table"
)

// panel is one picture of a dashboard.
type panel struct {
	title string
	kind  string
	width int // of 24
	unit  string
	// queries are in PromQL, each with what its lines are called.
	queries []query
}

type query struct{ expr, legend string }

// section is a row of panels.
type section struct {
	title  string
	panels []panel
}

// dashboard is one page.
type dashboard struct {
	file, uid, title, about string
	variables               []variable
	sections                []section
}

// variable is a choice at the top of a page: the values of a label of a metric.
type variable struct{ name, metric, label string }

const panelHeight = 8

// json returns the dashboard as Grafana imports it.
func (d dashboard) json() []byte {
	var panels []any
	id, y := 0, 0
	place := func(x, width, height int) map[string]any {
		return map[string]any{"x": x, "y": y, "w": width, "h": height}
	}
	for _, s := range d.sections {
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": s.title, "collapsed": false, "gridPos": place(0, 24, 1), "panels": []any{}})
		y++
		x := 0
		for _, p := range s.panels {
			if x+p.width > 24 {
				x, y = 0, y+panelHeight
			}
			id++
			panels = append(panels, p.json(id, place(x, p.width, panelHeight)))
			x += p.width
		}
		y += panelHeight
	}
	text, err := json.MarshalIndent(map[string]any{
		"uid": d.uid, "title": d.title, "description": d.about, "tags": []string{"weir"}, "editable": true, "graphTooltip": 1,
		"schemaVersion": 39, "version": 1, "refresh": "10s", "timezone": "browser", "time": map[string]any{"from": "now-1h", "to": "now"},
		"templating": map[string]any{"list": d.choices()}, "panels": panels, "annotations": map[string]any{"list": []any{}}, "links": []any{},
	}, "", "  ")
	if err != nil {
		panic(err) // texts and numbers only
	}
	return append(text, '\n')
}

func (d dashboard) choices() []any {
	list := []any{map[string]any{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0, "refresh": 1, "multi": false, "includeAll": false}}
	var chosen []string // filters by the choices to the left
	for _, v := range d.variables {
		filter := ""
		if len(chosen) > 0 {
			filter = "{" + strings.Join(chosen, ",") + "}"
		}
		q := "label_values(" + v.metric + filter + ", " + v.label + ")"
		list = append(list, map[string]any{
			"name": v.name, "label": v.name, "type": "query", "datasource": source(), "query": map[string]any{"query": q, "refId": v.name}, "definition": q,
			"multi": true, "includeAll": true, "allValue": ".*", "refresh": 2, "sort": 1, "hide": 0,
			"current": map[string]any{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		})
		chosen = append(chosen, v.label+`=~"$`+v.name+`"`)
	}
	return list
}

func source() map[string]any {
	return map[string]any{"type": "prometheus", "uid": "${datasource}"}
}

func (p panel) json(id int, at map[string]any) map[string]any {
	kind := p.kind
	custom := map[string]any{}
	if kind == series || kind == stack {
		custom = map[string]any{"lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": false}
	}
	if kind == stack {
		kind = series
		custom["fillOpacity"], custom["stacking"] = 30, map[string]any{"mode": "normal", "group": "A"}
	}
	var targets []any
	for i, q := range p.queries {
		targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend,
			"range": p.kind != rows, "instant": p.kind == rows, "format": map[bool]string{true: "table", false: "time_series"}[p.kind == rows]})
	}
	return map[string]any{"id": id, "type": kind, "title": p.title, "description": p.description(), "datasource": source(), "gridPos": at, "targets": targets,
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0, "custom": custom}, "overrides": []any{}},
		"options":     options[kind]}
}

// options are those of each kind of panel of Grafana.
var options = map[string]any{
	series: map[string]any{"legend": map[string]any{"displayMode": "table", "placement": "bottom", "calcs": []string{"lastNotNull", "max"}, "showLegend": true}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}},
	number: map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto"},
	rows:   map[string]any{"showHeader": true, "cellHeight": "sm"},
}

var metricName = regexp.MustCompile(`\bweir[_:][a-z_:]+`)

// description says what the metrics of a panel are, in the words of the table.
func (p panel) description() string {
	var texts []string
	for _, q := range p.queries {
		for _, name := range metricName.FindAllString(q.expr, -1) {
			if text := helpOf(name); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "\n")
}

// helpOf returns the help of a metric or of a recorded series.
func helpOf(name string) string {
	for _, r := range recorded {
		if r.name == name {
			return r.name + ": " + r.help
		}
	}
	for _, m := range server.Metrics() {
		if m.Name == name {
			return m.Name + ": " + m.Help
		}
	}
	return ""
}
