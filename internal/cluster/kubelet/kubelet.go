package kubelet

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/cluster/process"
)

// Config has the settings of a kubelet.
type Config struct {
	Dir        string // for its configuration, certificates and the logs of pods; absolute
	Root       string // its --root-dir, which it makes a mount; absolute, and short
	LogDir     string
	Binaries   cluster.Binaries // of FindPrograms
	Kubeconfig string           // of an administrator: no authorizer is set up for nodes
	NodeName   string
	Runtime    string        // socket of the container runtime
	Sync       time.Duration // how often each pod is synced; 0 for a kubelet's own minute
	// StatsPeriod is how often the usage of volumes is read; 0 for a kubelet's own minute.
	// It is also how often the driver is asked for the health of volumes, with the gate CSIVolumeHealth.
	StatsPeriod time.Duration
	Gates       []string // features that are switched on beside those that are on by default
	// ServerPort is the port on loopback where the logs of containers are read and commands are run
	// in them; 0 for no server. Without a server, `kubectl logs` and `exec` do not work.
	ServerPort int
	ClientCA   string // file with the authority of the server's clients
}

// Start starts a kubelet.
func Start(cfg Config) (*process.Process, error) {
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
podLogsDir: %s
enableServer: %t
port: %d
address: 127.0.0.1
healthzPort: 0
readOnlyPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: %q}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 1Mi, nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%}
syncFrequency: %s
volumeStatsAggPeriod: %s
featureGates: {%s}
`, cfg.Runtime, filepath.Join(cfg.Dir, "podlogs"), cfg.ServerPort != 0, cfg.ServerPort, cfg.ClientCA,
		orMinute(cfg.Sync), orMinute(cfg.StatsPeriod), switchedOn(cfg.Gates))
	path := filepath.Join(cfg.Dir, "kubelet.yaml")
	if err := write(path, []byte(config)); err != nil {
		return nil, err
	}
	return process.Start(process.Config{
		Name: programKubelet, Path: cfg.Binaries[programKubelet], Log: filepath.Join(cfg.LogDir, programKubelet+".log"),
		Args: []string{
			"--config", path, "--kubeconfig", cfg.Kubeconfig, "--root-dir", cfg.Root,
			"--cert-dir", filepath.Join(cfg.Dir, "pki"), "--hostname-override", cfg.NodeName, "--node-ip", "127.0.0.1",
			"--v", "2",
		},
	})
}

func switchedOn(gates []string) string {
	var on []string
	for _, gate := range gates {
		on = append(on, gate+": true")
	}
	return strings.Join(on, ", ")
}

func orMinute(d time.Duration) time.Duration {
	if d == 0 {
		return time.Minute
	}
	return d
}
