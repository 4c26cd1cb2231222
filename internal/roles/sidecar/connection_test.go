package sidecar

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

// ST-4, U-46: the loss of the connection ends the process only with the flag, and then with
// upstream's message.
func TestConnectionLoss(t *testing.T) {
	dir := scripted.SocketDir(t)
	words := filepath.Join(dir, "termination-log")
	if err := os.WriteFile(words, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket, end := rolestest.StartLiveDriver(t, dir)
	meet := func(exitOnLoss bool) connectionMonitor {
		settings := &Connection{CSIAddress: socket, Timeout: 10 * time.Second, ExitOnConnectionLoss: exitOnLoss}
		conn, err := csirpc.Dial(csirpc.Config{Endpoint: socket, Timeout: settings.Timeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		l := connectionMonitor{settings: settings, conn: conn, terminationLog: words}
		if l.driver, err = settings.meet(t.Context(), l.conn); err != nil {
			t.Fatal(err)
		}
		return l
	}
	leaves, stays, changed := meet(true), meet(false), meet(false)
	changed.driver.Name = "another"
	ctx, cancel := context.WithCancel(t.Context())
	ends := map[string]chan error{"leaves": make(chan error, 1), "stays": make(chan error, 1), "changed": make(chan error, 1)}
	for name, l := range map[string]connectionMonitor{"leaves": leaves, "stays": stays, "changed": changed} {
		go func() { ends[name] <- l.Start(ctx) }()
	}
	end()
	if err := <-ends["leaves"]; !errors.Is(err, errLostConnection) {
		t.Errorf("with the flag: %v", err)
	}
	if text, _ := os.ReadFile(words); string(text) != lostConnection+"\n" {
		t.Errorf("termination log: %q", text)
	}
	rolestest.StartLiveDriver(t, dir)
	if err := <-ends["changed"]; !errors.Is(err, errOtherDriver) {
		t.Errorf("a driver with another name: %v", err)
	}
	rolestest.Eventually(t, "the connection is back", func() error { return stays.conn.Probe(t.Context()) })
	select {
	case err := <-ends["stays"]:
		t.Errorf("without the flag: %v", err)
	default:
	}
	cancel()
	if err := <-ends["stays"]; err != nil {
		t.Errorf("at the end of the process: %v", err)
	}
}
