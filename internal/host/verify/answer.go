// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Answer is the far end: it sends each datagram back and takes each connection, at one port, until
// ctx ends. It sends nothing to an address that has not sent the same before, and no more.
func Answer(ctx context.Context, address string) error {
	var listening net.ListenConfig
	packets, err := listening.ListenPacket(ctx, "udp", address)
	if err != nil {
		return fmt.Errorf("answer datagrams: %w", err)
	}
	connections, err := listening.Listen(ctx, "tcp", packets.LocalAddr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("answer connections: %w", err), packets.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = packets.Close(); _ = connections.Close() })
	defer stop()
	go func() {
		for {
			c, err := connections.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	buffer := make([]byte, 2048)
	for {
		n, by, err := packets.ReadFrom(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		_, _ = packets.WriteTo(buffer[:n], by) // a datagram that is lost is not counted there
	}
}
