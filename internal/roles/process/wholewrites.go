package process

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/kube"
)

// typesMinor is the minor version of Kubernetes whose API types this program is built with. An
// update of a whole object would lose the fields that later versions added.
const typesMinor = 37

// wholeWrites decides whether objects may be written with update instead of patch. That takes an
// API server that is not newer than the API types of this program.
type wholeWrites struct {
	server discovery.ServerVersionInterface
	may    atomic.Bool
}

// checkEvery is how often the version of the API server is read: it can be upgraded while this
// process runs.
const checkEvery = 5 * time.Minute

// NewWholeWriter returns a client that updates whole objects where that is safe, and patches
// otherwise.
func NewWholeWriter(mgr manager.Manager, api *rest.Config) (client.Client, error) {
	server, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return nil, fmt.Errorf("version of the api server: %w", err)
	}
	w := &wholeWrites{server: server}
	if err := mgr.Add(w); err != nil {
		return nil, fmt.Errorf("version of the api server: %w", err)
	}
	return &kube.Replacing{Client: mgr.GetClient(), Knows: w.may.Load}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby reads the version too, so
// that a new leader knows it.
func (w *wholeWrites) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *wholeWrites) Start(ctx context.Context) error {
	for {
		w.look(logr.FromContextOrDiscard(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(checkEvery):
		}
	}
}

// look reads the version of the API server. While it is not known, whole objects are not written,
// since patches are always safe.
func (w *wholeWrites) look(log logr.Logger) {
	info, err := w.server.ServerVersion()
	may := err == nil && typesCover(info)
	if w.may.Swap(may) && !may {
		log.Info(
			"writing patches from now on: the API server is newer than the types here, or does not say its version",
			"types",
			typesMinor,
		)
	}
}

// typesCover reports whether the API types of this program have all fields of the API server.
// Vendors append letters to the minor version.
func typesCover(info *version.Info) bool {
	major, errMajor := strconv.Atoi(info.Major)
	minor, errMinor := strconv.Atoi(strings.TrimRight(info.Minor, "+abcdefghijklmnopqrstuvwxyz-"))
	return errMajor == nil && errMinor == nil && major == 1 && minor <= typesMinor
}
