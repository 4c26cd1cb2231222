package snapshotmetadata

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// CB-H4: a connection that sends no request ends.
func TestConnectionWithoutARequest(t *testing.T) {
	r := newRig(t, newDriver(), func(cfg *Config) { cfg.idle = 50 * time.Millisecond })
	conn, err := tls.Dial("tcp", r.address, &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{http2.NextProtoTLS},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	frames := http2.NewFramer(conn, conn)
	if err := frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for isClosing := false; ; {
		frame, err := frames.ReadFrame()
		if err != nil {
			if !isClosing {
				t.Errorf("CB-H4: %v, before the server said that it closes the connection", err)
			}
			return
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			isClosing = true
		case *http2.PingFrame: // else the server waits for the answer
			if err := frames.WritePing(true, frame.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// counting is a listener that counts the connections that are open.
type counting struct {
	net.Listener
	accepted   chan struct{}
	open, most atomic.Int32
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.most.Store(max(c.most.Load(), c.open.Add(1)))
	c.accepted <- struct{}{}
	return &countedConn{Conn: conn, of: c}, nil
}

type countedConn struct {
	net.Conn
	of       *counting
	isClosed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.isClosed.CompareAndSwap(false, true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

// CB-H4: connections are limited; one more is accepted when another ends.
func TestConnectionsOfTheServer(t *testing.T) {
	const all, most = 10, 2
	count := &counting{accepted: make(chan struct{}, all)}
	r := newRigBehind(t, newDriver(), func(cfg *Config) { cfg.connections = most },
		func(listener net.Listener) net.Listener {
			count.Listener = listener
			return count
		})
	var conns []net.Conn
	for range all {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
	}
	for i := range all {
		<-count.accepted
		if i >= most-1 {
			conns[i-most+1].Close()
		}
	}
	if got := count.most.Load(); got > most {
		t.Errorf("CB-H4: %d connections at once", got)
	}
}
