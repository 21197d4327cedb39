// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/face/server"
	"weir/internal/test/goldentest"
)

const folder = "../../../../deploy/monitoring"

// TestFiles: deploy/monitoring is what the tables say; -update writes it.
func TestFiles(t *testing.T) {
	made := files()
	for name, text := range made {
		goldentest.Check(t, filepath.Join(folder, name), string(text))
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		if made[f.Name()] == nil {
			t.Errorf("deploy/monitoring/%s is made by nothing", f.Name())
		}
	}
}

// unshown are the metrics that no panel and no rule has, with the reason.
var unshown = map[string]string{
	"weir_cluster_refused_calls_total": "of hosts in a cluster only; weir status shows it",
	"weir_pod_info":                    "to join with others, in Kubernetes only",
}

// asked is one query of a panel or the expression of a rule.
type asked struct{ where, expr string }

// queriesOfPanels returns the queries of all panels, in their order.
func queriesOfPanels() (list []asked) {
	for _, d := range dashboards {
		for _, s := range d.sections {
			for _, p := range s.panels {
				for _, q := range p.queries {
					list = append(list, asked{d.title + " / " + p.title, q.expr})
				}
			}
		}
	}
	return list
}

var labelName = regexp.MustCompile(`([a-z_]+)(?:=~|=|!=)"`)

// TestQueries: queries have metrics of the table and recorded series only, by labels that
// these have; and each metric is shown.
func TestQueries(t *testing.T) {
	labels, shown := map[string][]string{}, map[string]bool{}
	for _, m := range server.Metrics() {
		labels[m.Name] = m.Labels
	}
	exprs := queriesOfPanels()
	for _, r := range recorded {
		exprs = append(exprs, asked{r.name, r.expr})
		labels[r.name] = []string{"link", "direction", "workload", "class"}
	}
	for _, a := range alerts {
		exprs = append(exprs, asked{a.name, a.expr})
	}
	selector := regexp.MustCompile(`(weir[_:][a-z_:]+)(\{[^}]*\})?`)
	for _, q := range exprs {
		for _, m := range selector.FindAllStringSubmatch(q.expr, -1) {
			known, ok := labels[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", q.where, m[1])
			}
			shown[m[1]] = true
			for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(append(known, "instance", "job"), l[1]) {
					t.Errorf("%s: %s has no label %s", q.where, m[1], l[1])
				}
			}
		}
	}
	for name := range labels {
		queue, group := strings.HasPrefix(name, "weir_queue_"), strings.HasPrefix(name, "weir_group_")
		if reserve := regexp.MustCompile(`^weir_class_(reserve|goodput|control)_`).MatchString(name); !shown[name] && unshown[name] == "" && !queue && !group && !reserve {
			t.Errorf("%s is on no dashboard and in no rule", name)
		}
	}
}

// TestDashboards: panels do not overlap, have their texts and Grafana's form.
func TestDashboards(t *testing.T) {
	for _, d := range dashboards {
		var page struct {
			Title, UID string
			Panels     []struct {
				ID          int
				Type, Title string
				Description string
				GridPos     struct{ X, Y, W, H int }
				Targets     []struct{ RefID, Expr string }
			}
		}
		if err := json.Unmarshal(d.json(), &page); err != nil {
			t.Fatal(err)
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range page.Panels {
			if ids[p.ID] || p.Title == "" || p.Type != "row" && (len(p.Targets) == 0 || p.Description == "" && !strings.Contains(p.Targets[0].Expr, "process_")) {
				t.Errorf("%s: %+v", page.Title, p)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Errorf("%s: %s overlaps %s at %d, %d", page.Title, p.Title, other, x, y)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

// TestAlerts: each has its texts.
func TestAlerts(t *testing.T) {
	for _, a := range alerts {
		if !strings.HasPrefix(a.name, "Weir") || a.summary == "" || a.remedy == "" || !slices.Contains([]string{"critical", "warning", "info"}, a.severity) || len(a.bad) == 0 || len(a.good) == 0 {
			t.Errorf("%+v", a)
		}
	}
}

// TestAlertsInDocs: docs/monitoring.md has each alert, with its time and severity.
func TestAlertsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts {
		wait := strings.TrimSuffix(a.wait, "m") + " min"
		if a.wait == "0m" {
			wait = "at once"
		}
		if row := "| `" + a.name + "` | " + wait + " | " + a.severity + " |"; !strings.Contains(string(text), row) {
			t.Errorf("docs/monitoring.md lacks %q", row)
		}
	}
	if rows := strings.Count(string(text), "\n| `Weir"); rows != len(alerts) {
		t.Errorf("docs/monitoring.md has %d alerts, want %d", rows, len(alerts))
	}
}
