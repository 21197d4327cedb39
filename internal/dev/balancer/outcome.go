// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"weir/internal/dev/figures"
)

// outcome holds the rate that a program achieved, and its losses.
type outcome struct {
	rate float64 // bogo operations per second; iperf: Mbit/s that the server received
	lost float64 // packets that the server missed, percent; 0 for all but iperf
	// spread is from the lowest to the highest run, as a part of the rate.
	spread float64
}

// bogoLine is a line of stress-ng's --metrics-brief: name, bogo operations, real,
// user and system seconds, and operations per second of real and of CPU time.
var bogoLine = regexp.MustCompile(`(?m)metrc: \[\d+\] +\S+ +(\d+) +(\d+\.\d+) +\d+\.\d+ +\d+\.\d+ +\d+\.\d+ +\d+\.\d+$`)

// parseStress reads what a stress-ng with one stressor printed. The rate is that of
// real time, calculated anew: stress-ng rounds it to two digits after the point, and
// one tsearch takes half a minute.
func parseStress(printed string) (outcome, error) {
	found := bogoLine.FindStringSubmatch(printed)
	if found == nil {
		return outcome{}, fmt.Errorf("stress-ng has printed no metrics: %.300q", printed)
	}
	operations, _ := strconv.ParseFloat(found[1], 64)
	seconds, _ := strconv.ParseFloat(found[2], 64)
	if operations == 0 || seconds == 0 {
		return outcome{}, fmt.Errorf("stress-ng has done %s bogo operations in %s s; give it longer", found[1], found[2])
	}
	return outcome{rate: operations / seconds}, nil
}

// parseIperf reads what an iperf3 server printed with --json after a test by UDP.
func parseIperf(printed []byte) (outcome, error) {
	var report struct {
		End struct {
			Sum struct {
				Lost float64 `json:"lost_percent"`
			} `json:"sum"`
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(printed, &report); err != nil {
		return outcome{}, fmt.Errorf("iperf3's server has printed no report: %w: %.300q", err, printed)
	}
	if report.Error != "" {
		return outcome{}, fmt.Errorf("iperf3's server: %s", report.Error)
	}
	if report.End.Received.Rate == 0 {
		return outcome{}, errors.New("iperf3's server has received nothing")
	}
	return outcome{rate: report.End.Received.Rate / 1e6, lost: report.End.Sum.Lost}, nil
}

// shared is a line of the data: one or two programs that shared the machine. The lists have
// their order. A value is the median of the runs.
type shared struct {
	Programs []string    `json:"programs"`
	Rates    []float64   `json:"rates"`                  // bogo operations per second; iperf: Mbit/s received
	Lost     []float64   `json:"lost_percent,omitempty"` // of iperf's packets, 0 for others
	Range    []float64   `json:"range_percent"`          // from the lowest to the highest run, of the median
	Runs     [][]float64 `json:"runs,omitempty"`         // the rates of each run, for each program
}

// outcomes are the measurements: for each company of one or two, the rates that its
// programs achieved. Two of the same program have the mean.
type outcomes map[company]map[string]outcome

// readTogether reads a run's data.
func readTogether(r *figures.Run) (outcomes, error) {
	lines, err := readLines[shared](r)
	if err != nil {
		return nil, err
	}
	all := outcomes{}
	for at, s := range lines {
		name := fmt.Sprintf("%s/%s.jsonl:%d", figures.Folder, r.Name, at+2)
		n := len(s.Programs)
		if n < 1 || n > 2 || len(s.Rates) != n || len(s.Lost) != n && s.Lost != nil || len(s.Range) != n && s.Range != nil {
			return nil, fmt.Errorf("%s: %v needs one or two programs with a rate each", name, s.Programs)
		}
		of := map[string]outcome{}
		for i, program := range s.Programs {
			if !(s.Rates[i] > 0) {
				return nil, fmt.Errorf("%s: %v: rate %v; give a positive number", name, s.Programs, s.Rates[i])
			}
			part := 1.0
			if s.Programs[0] == s.Programs[n-1] {
				part = 1 / float64(n)
			}
			sum := of[program]
			sum.rate += s.Rates[i] * part
			if s.Lost != nil {
				sum.lost += s.Lost[i] * part
			}
			if s.Range != nil {
				sum.spread += s.Range[i] / 100 * part
			}
			of[program] = sum
		}
		all[companyOf(s.Programs...)] = of
	}
	return all, nil
}

// speed is the speed of a container on its node.
type speed struct {
	relative   float64 // its rate there, as a part of its rate alone
	lost       float64 // percent
	calculated bool    // from pairs: three or more share the node
}

// speed of a program in a company, false if a part of it was not measured. Each
// partner slows it by as much as in their pair, whichever programs run beside them; lost
// packets are calculated in the same way. With one partner the speed is the measured one.
func (f outcomes) speed(program string, in company) (speed, bool) {
	partners := in.members()
	if i := slices.Index(partners, program); i >= 0 {
		partners = slices.Delete(partners, i, i+1)
	}
	alone, known := f[companyOf(program)][program]
	arrives := 1 - alone.lost/100
	s, passed := speed{relative: 1, calculated: len(partners) > 1}, arrives
	for _, partner := range partners {
		pair, too := f[companyOf(program, partner)][program]
		known = known && too
		s.relative *= pair.rate / alone.rate
		passed *= (1 - pair.lost/100) / arrives
	}
	s.lost = (1 - passed) * 100
	return s, known
}
