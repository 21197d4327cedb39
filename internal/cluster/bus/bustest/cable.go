// SPDX-License-Identifier: Apache-2.0

package bustest

import (
	"errors"
	"net"
	"sync"
	"time"
)

// CutDialer makes connections that can be cut.
type CutDialer struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// Dial makes a connection, unless the cable is cut.
func (c *CutDialer) Dial(network, address string) (net.Conn, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns = map[net.Conn]bool{}
	}
	c.conns[conn] = true
	return conn, nil
}

// Cut ends all connections, and there are no new ones until Mend.
func (c *CutDialer) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// Mend lets connections be made again.
func (c *CutDialer) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}
