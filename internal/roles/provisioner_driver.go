package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/telemetry"
)

// complainEvery bounds how often the log says that the driver does not answer (ST-4).
const complainEvery = 10 * time.Second

// meet waits for the driver and learns who it is.
func (p *Provisioner) meet(ctx context.Context, conn *csirpc.Conn) (csirpc.Description, error) {
	log := logr.FromContextOrDiscard(ctx)
	var told time.Time
	err := conn.WaitReady(ctx, func(err error) {
		if time.Since(told) >= complainEvery {
			told = time.Now()
			log.Info("waiting for the csi driver", "address", p.CSIAddress, "problem", err.Error())
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

// lookout sees the connection to the driver break. It is a runnable of the manager, on leaders and standbys alike.
type lookout struct {
	role           *Provisioner
	conn           *csirpc.Conn
	driver         csirpc.Description
	terminationLog string
}

const (
	terminationLog = "/dev/termination-log"
	lostConnection = "Lost connection to CSI driver, exiting" // upstream's words (ST-4), which alerts look for
)

var (
	errLostConnection = errors.New("lost the connection to the csi driver, and --exit-on-connection-loss is set")
	errOtherDriver    = errors.New("the csi driver that came back is another one; start again to serve it")
)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l lookout) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. A driver that comes back as it was costs nothing; one that does not is met anew by a new
// process, since capabilities decide what is watched and asked (ST-8, U-46).
func (l lookout) Start(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	for {
		if err := l.conn.WaitBroken(ctx); err != nil {
			return nil //nolint:nilerr // the process ends, the connection is well
		}
		if l.role.ExitOnConnectionLoss {
			l.bequeath(log)
			return errLostConnection
		}
		log.Info("lost the connection to the csi driver, connecting again")
		driver, err := l.meetAgain(ctx)
		switch {
		case err != nil:
			return nil //nolint:nilerr // the process ends
		case driver.Name != l.driver.Name || !maps.Equal(driver.Controller, l.driver.Controller) || !maps.Equal(driver.Plugin, l.driver.Plugin):
			return otherDriver(l.driver, driver)
		}
	}
}

// meetAgain does not give up: a driver that answers before it can say who it is must not be taken for the one before.
func (l lookout) meetAgain(ctx context.Context) (driver csirpc.Description, err error) {
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var failed error
		if driver, failed = l.role.meet(ctx, l.conn); failed != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(failed, "cannot learn who the csi driver is; asking again")
		}
		return failed == nil, nil
	})
	return driver, err
}

// otherDriver says in what the driver differs from the one that this process began with.
func otherDriver(was, is csirpc.Description) error {
	if was.Name != is.Name {
		return fmt.Errorf("%w: it was %q and is %q", errOtherDriver, was.Name, is.Name)
	}
	return fmt.Errorf("%w: %q has other capabilities than before", errOtherDriver, is.Name)
}

// bequeath leaves word for the pod's status. The file exists where a kubelet reads it.
func (l lookout) bequeath(log logr.Logger) {
	file, err := os.OpenFile(l.terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		_, err = fmt.Fprintln(file, lostConnection)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		log.Error(err, "cannot leave word why the process ends", "file", l.terminationLog)
	}
}
