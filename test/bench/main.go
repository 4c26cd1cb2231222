// Command bench measures workloads with the programs of Kubernetes and of Purser in turn, on an API
// server with an audit log: `go run ./test/bench WORKLOAD [flags]`. Without a workload it lists them.
// It prints the requests to the API server and the calls of the driver, which are the same on every
// machine, and rates and times, which are not.
//
// It ends with 1 if a workload did not get done.
package main

import (
	"os"

	"github.com/purser-csi/purser/test/bench/attach"
	"github.com/purser-csi/purser/test/bench/capacity"
	"github.com/purser-csi/purser/test/bench/claims"
	"github.com/purser-csi/purser/test/bench/floor"
	"github.com/purser-csi/purser/test/bench/pod"
	"github.com/purser-csi/purser/test/bench/resize"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/bench/scale"
	"github.com/purser-csi/purser/test/bench/sidecars"
	"github.com/purser-csi/purser/test/bench/snapshot"
)

func main() {
	os.Exit(runner.Main(os.Args[1:],
		floor.Workload(), claims.Workload(), attach.Workload(), resize.Workload(), snapshot.Workload(),
		capacity.Workload(), scale.Workload(), pod.Workload(), sidecars.Workload()))
}
