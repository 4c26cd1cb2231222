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

// typesMinor is the minor version of Kubernetes that the API types of this program are of. A field
// that came later is not in them, and would be lost with every object that is written whole.
const typesMinor = 37

// wholeWrites decides whether objects may be written whole, which takes an API server that is not
// newer than the types.
type wholeWrites struct {
	server discovery.ServerVersionInterface
	may    atomic.Bool
}

// lookAgain is how often the version is looked at: an API server can be upgraded under a running
// process.
const lookAgain = 5 * time.Minute

// NewWholeWriter gives a manager's client that writes whole objects where it may.
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

// NeedLeaderElection implements manager.LeaderElectionRunnable: who begins to lead knows.
func (w *wholeWrites) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *wholeWrites) Start(ctx context.Context) error {
	for {
		w.look(logr.FromContextOrDiscard(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
	}
}

// look allows nothing as long as the version is not known: patches always do.
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

// typesCover reports whether the types here have all fields of the API server. Vendors add letters
// to the numbers.
func typesCover(info *version.Info) bool {
	major, errMajor := strconv.Atoi(info.Major)
	minor, errMinor := strconv.Atoi(strings.TrimRight(info.Minor, "+abcdefghijklmnopqrstuvwxyz-"))
	return errMajor == nil && errMinor == nil && major == 1 && minor <= typesMinor
}
