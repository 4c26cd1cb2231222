package kubelet

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/purser-csi/purser/internal/cluster"
)

// The programs that are run. The shim and runc are run by containerd, which finds them in PATH.
const (
	programKubelet    = "kubelet"
	programContainerd = "containerd"
	programClient     = "ctr"
	programShim       = "containerd-shim-runc-v2"
	programRunc       = "runc"
)

// FindPrograms looks for the kubelet in dirs and in PATH, and for containerd. The error says in one
// line what is missing on this machine.
func FindPrograms(dirs ...string) (cluster.Binaries, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a kubelet mounts volumes and starts containers, which takes root; run it as root")
	}
	found, err := cluster.FindBinaries([]string{programContainerd, programClient, programShim, programRunc})
	if missing, ok := errors.AsType[*cluster.MissingError](err); ok {
		return nil, fmt.Errorf("a kubelet needs a container runtime, and %s not in PATH; install it, such as with "+
			"`apt-get install containerd runc`", are(missing.Programs))
	} else if err != nil {
		return nil, err
	}
	own, err := cluster.FindBinaries([]string{programKubelet}, dirs...)
	if missing, ok := errors.AsType[*cluster.MissingError](err); ok {
		return nil, fmt.Errorf(
			"there is no kubelet (looked in %s); `tools/build.sh bin kubelet` builds one",
			strings.Join(missing.Looked, ", "),
		)
	} else if err != nil {
		return nil, err
	}
	found[programKubelet] = own[programKubelet]
	return found, nil
}

func are(programs []string) string {
	if len(programs) == 1 {
		return programs[0] + " is"
	}
	return strings.Join(programs, ", ") + " are"
}
