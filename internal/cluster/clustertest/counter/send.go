// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Send is a stream of UDP packets to a receiver that counts them. Each carries the
// sender's name, so that it is known wherever its sender has moved to.
type Send struct {
	Name string
	Bps  float64 // on the wire
	To   *net.UDPAddr
}

const (
	// Headers is the size of what UDP, IPv4 and Ethernet add to a packet, in bytes.
	Headers = 8 + 20 + 14
	payload = 1514 - Headers // full packets

	burst = 2 * time.Millisecond // between two looks at the clock
	late  = 20 * time.Millisecond
)

var magic = []byte("weir-lab ")

// parseSend reads NAME,BPS,HOST:PORT.
func parseSend(text string) (*Send, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 {
		return nil, fmt.Errorf("counter: send=%q: not NAME,BPS,HOST:PORT", text)
	}
	bps, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return nil, fmt.Errorf("counter: send=%q: %w", text, err)
	}
	to, err := net.ResolveUDPAddr("udp4", parts[2])
	if err != nil {
		return nil, fmt.Errorf("counter: send=%q: %w", text, err)
	}
	return &Send{Name: parts[0], Bps: bps, To: to}, nil
}

// start sends until the process ends. The socket is bound to no address, so that it
// can be restored where the address is another.
func (s *Send) start() error {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return err
	}
	packet := make([]byte, payload)
	copy(packet, append(append([]byte{}, magic...), s.Name+" "...))
	every := time.Duration((payload + Headers) * 8 / s.Bps * float64(time.Second))
	go func() {
		for next := time.Now(); ; time.Sleep(burst) {
			now := time.Now()
			if now.Sub(next) > late { // it has stood still: what was not sent then is not made good
				next = now
			}
			for ; next.Before(now); next = next.Add(every) {
				_, _ = conn.WriteToUDP(packet, s.To) // a lost packet does not matter
			}
		}
	}()
	return nil
}

// Sender returns the name in a packet of Send's.
func Sender(packet []byte) (name string, ok bool) {
	rest, ok := bytes.CutPrefix(packet, magic)
	if !ok {
		return "", false
	}
	word, _, ok := bytes.Cut(rest, []byte(" "))
	return string(word), ok
}
