// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgimg" // PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/lab/report"
)

// Rate is the traffic of a container that arrived in a measurement.
type Rate struct {
	Container string  `json:"container"`
	Bps       float64 `json:"rate_bps"` // on the wire
}

// receiver counts what containers send, beside the switch, by the name that each
// packet carries.
type receiver struct {
	conn net.PacketConn

	mu    sync.Mutex
	began time.Time
	total map[string]uint64   // bytes on the wire
	bins  map[string][]uint64 // the same, in each binTime
}

// binTime is the resolution of the plot.
const binTime = 500 * time.Millisecond

// receiveBuffer is half a second of 100 Mbit/s, with the kernel's own for each packet.
const receiveBuffer = 16 << 20

// trafficPort is where containers send to.
const trafficPort = "9000"

func listenTraffic(c *clustertest.Cluster) (*receiver, error) {
	conn, err := c.ListenPacket(trafficPort)
	if err != nil {
		return nil, fmt.Errorf("receive traffic: %w", err)
	}
	if err := deepen(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("receive traffic: %w", err), conn.Close())
	}
	r := &receiver{conn: conn, began: time.Now(), total: map[string]uint64{}, bins: map[string][]uint64{}}
	go r.run()
	return r, nil
}

// deepen gives a socket room for the packets of a moment in which no program reads.
func deepen(conn net.PacketConn) error {
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
	})
	return errors.Join(err, failed)
}

func (r *receiver) address() string { return r.conn.LocalAddr().String() }

func (r *receiver) close() error { return r.conn.Close() }

func (r *receiver) run() {
	packet := make([]byte, 2048)
	for {
		n, _, err := r.conn.ReadFrom(packet)
		if err != nil {
			return // closed
		}
		if name, ok := counter.Sender(packet[:n]); ok {
			r.count(name, uint64(n+counter.Headers))
		}
	}
}

func (r *receiver) count(name string, bytes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total[name] += bytes
	bin := int(time.Since(r.began) / binTime)
	row := r.bins[name]
	for len(row) <= bin {
		row = append(row, 0)
	}
	row[bin] += bytes
	r.bins[name] = row
}

// totals are the bytes so far, and when that was.
func (r *receiver) totals() (map[string]uint64, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[string]uint64{}
	for name, bytes := range r.total {
		now[name] = bytes
	}
	return now, time.Now()
}

// caption is an instant of the plot with its text.
type caption struct {
	at   time.Time
	text string
}

// plot draws the rates over time into dir as NAME.svg and NAME.png.
func (r *receiver) plot(dir, name, title string, names []string, captions []caption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	p := report.NewPlot(title, "time in seconds", "received, Mbit/s")
	first := time.Since(r.began)
	for _, row := range r.bins {
		i := slices.IndexFunc(row, func(bytes uint64) bool { return bytes > 0 })
		first = min(first, time.Duration(max(i, 0))*binTime)
	}
	begin, end := max(first-2*time.Second, 0).Seconds(), time.Since(r.began).Seconds()
	p.X.Min, p.X.Max, p.Y.Min = begin, end+0.2*(end-begin), 0
	top := 0.0
	for i, name := range names {
		var points plotter.XYs
		for n := range int(end / binTime.Seconds()) {
			rate := 0.0
			if n < len(r.bins[name]) {
				rate = float64(r.bins[name][n]) * 8 / binTime.Seconds() / 1e6
			}
			top = max(top, rate)
			points = append(points, plotter.XY{X: (float64(n) + 0.5) * binTime.Seconds(), Y: rate})
		}
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = report.Colour(i), vg.Points(1.4)
		p.Add(line)
		p.Legend.Add(name, line)
	}
	p.Y.Max = max(top*1.3, 1)
	if err := addCaptions(p, captions, r.began, p.Y.Max); err != nil {
		return err
	}
	for _, suffix := range []string{".svg", ".png"} {
		if err := p.Save(24*vg.Centimeter, 12*vg.Centimeter, filepath.Join(dir, name+suffix)); err != nil {
			return err
		}
	}
	return nil
}

// addCaptions marks instants, the texts in three rows so that they do not overlap.
func addCaptions(p *plot.Plot, captions []caption, began time.Time, top float64) error {
	for i, c := range captions {
		x := c.at.Sub(began).Seconds()
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: top}})
		if err != nil {
			return err
		}
		line.Color, line.Width = report.Faint, vg.Points(0.8)
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: top}}, Labels: []string{c.text}})
		if err != nil {
			return err
		}
		label.Offset = vg.Point{X: vg.Points(3), Y: vg.Points(-10 - 11*float64(i%3))}
		label.TextStyle[0].Font.Variant, label.TextStyle[0].Font.Size = "Sans", vg.Points(8)
		p.Add(line, label)
	}
	return nil
}
