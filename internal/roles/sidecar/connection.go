package sidecar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
)

// complainEvery is the shortest time between two log lines about a driver that does not answer
// (ST-4).
const complainEvery = 10 * time.Second

// Connection is how a sidecar reaches its driver.
type Connection struct {
	CSIAddress           string
	Timeout              time.Duration // of each call
	ExitOnConnectionLoss bool
}

// AddFlags adds the flags F-10 and F-42 with the default timeout of the role, and Purser's own
// --exit-on-connection-loss.
func (c *Connection) AddFlags(f *pflag.FlagSet, timeout time.Duration) {
	addSocketFlag(f, &c.CSIAddress)
	f.DurationVar(&c.Timeout, "timeout", timeout, "for each call to the driver")
	f.BoolVar(&c.ExitOnConnectionLoss, "exit-on-connection-loss", false,
		"end when the connection to the driver breaks, as upstream does, instead of reconnecting")
	cli.Marked(f, cli.MarkNew, "exit-on-connection-loss")
}

// Validate lists the mistakes.
func (c *Connection) Validate() []error {
	return []error{socketProblem(c.CSIAddress), cli.Need(c.Timeout > 0, "--timeout=%s: must be more than 0", c.Timeout)}
}

// addSocketFlag adds the flag F-10.
func addSocketFlag(f *pflag.FlagSet, address *string) {
	f.StringVar(address, "csi-address", "/run/csi/socket",
		"the driver's socket: an absolute `path`, or unix:// with one")
}

// socketProblem returns what is wrong with the flag F-10.
func socketProblem(address string) error {
	if _, err := csirpc.SocketPath(address); err != nil {
		return fmt.Errorf("--csi-address: %w", err)
	}
	return nil
}

// meet waits until the driver answers, and returns its name and capabilities.
func (c *Connection) meet(ctx context.Context, conn *csirpc.Conn) (csirpc.Description, error) {
	log := logr.FromContextOrDiscard(ctx)
	var logged time.Time
	err := conn.WaitReady(ctx, func(err error) {
		if time.Since(logged) >= complainEvery {
			logged = time.Now()
			log.Info("waiting for the csi driver", "address", c.CSIAddress, "problem", err.Error())
		}
	})
	if err != nil {
		return csirpc.Description{}, err
	}
	driver, err := conn.Describe(ctx)
	if err == nil {
		log.Info("found the csi driver", telemetry.KeyDriver, driver.Name, "version", driver.Version)
	}
	return driver, err
}

// connectionMonitor detects that the connection to the driver breaks. It is a runnable of the
// manager, on leaders and standbys alike.
type connectionMonitor struct {
	settings       *Connection
	conn           *csirpc.Conn
	driver         csirpc.Description
	terminationLog string
}

const lostConnection = "Lost connection to CSI driver, exiting" // upstream's words (ST-4), which alerts look for

var (
	errLostConnection = errors.New("lost the connection to the csi driver, and --exit-on-connection-loss is set")
	errOtherDriver    = errors.New("the csi driver that came back is another one; start again to serve it")
)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (m connectionMonitor) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. When the driver comes back with the same name and
// capabilities, the process goes on. Otherwise the process ends, since capabilities decide which
// objects are watched and which calls are made (ST-8, U-46).
func (m connectionMonitor) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for {
		if err := m.conn.WaitBroken(ctx); err != nil {
			return nil //nolint:nilerr // the process ends, and the connection works
		}
		if m.settings.ExitOnConnectionLoss {
			process.WriteTerminationMessage(log, m.terminationLog, lostConnection)
			return errLostConnection
		}
		log.Info("lost the connection to the csi driver, connecting again")
		driver, err := m.meetAgain(ctx)
		switch {
		case err != nil:
			return nil //nolint:nilerr // the process ends
		case driver.Name != m.driver.Name || !maps.Equal(driver.Controller, m.driver.Controller) ||
			!maps.Equal(driver.Plugin, m.driver.Plugin):
			return otherDriver(m.driver, driver)
		}
	}
}

// meetAgain retries until the driver returns its name: it may accept connections before it can
// answer.
func (m connectionMonitor) meetAgain(ctx context.Context) (driver csirpc.Description, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var failed error
		if driver, failed = m.settings.meet(ctx, m.conn); failed != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(failed, "cannot get the name of the csi driver; trying again")
		}
		return failed == nil, nil
	})
	return driver, err
}

// otherDriver returns an error that says how the driver differs from the one at the start.
func otherDriver(was, is csirpc.Description) error {
	if was.Name != is.Name {
		return fmt.Errorf("%w: it was %q and is %q", errOtherDriver, was.Name, is.Name)
	}
	return fmt.Errorf("%w: %q has other capabilities than before", errOtherDriver, is.Name)
}
