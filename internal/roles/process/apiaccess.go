package process

import (
	"fmt"
	"math"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/telemetry"
)

// APIAccess is how a role reaches the API server.
type APIAccess struct {
	API          *rest.Config // overrides Kubeconfig when set, for the roles inside of `up`
	Kubeconfig   string
	Master       string
	KubeAPIQPS   float32
	KubeAPIBurst int

	throttle *kube.Throttle // by --kube-api-qps; nil for none
	Cache    *SharedCache   // shared by the roles of this process; nil if the role has its own
}

// NoLimitBelow is the range of a rate limit. Upstream takes a negative one for no limit (F-49).
var NoLimitBelow = cli.Range{Most: "1000000000"}

// AddFlags adds the flags F-1, F-41, F-49 and F-50.
func (a *APIAccess) AddFlags(f *pflag.FlagSet) {
	f.StringVar(
		&a.Kubeconfig,
		"kubeconfig",
		"",
		"`path` of a kubeconfig, when not running in the cluster; the environment variable KUBECONFIG overrides it",
	)
	f.StringVar(&a.Master, "master", "", "`URL` of the API server, instead of the kubeconfig's")
	f.Float32Var(
		&a.KubeAPIQPS,
		"kube-api-qps",
		0,
		"API requests per second of the process, and the same number for its events; 0 or less for no limit but the "+
			"API server's priority and fairness",
	)
	f.IntVar(
		&a.KubeAPIBurst,
		"kube-api-burst",
		0,
		"API requests in a burst, if kube-api-qps is set; 0 means twice kube-api-qps",
	)
	cli.Ranged(f, NoLimitBelow, "kube-api-qps")
}

// AddKubeconfigFlag adds --kubeconfig alone, for a role that needs the API server for little.
func (a *APIAccess) AddKubeconfigFlag(f *pflag.FlagSet, what string) {
	f.StringVar(&a.Kubeconfig, "kubeconfig", "",
		"`path` of a kubeconfig, "+what+"; empty for that of the pod; the environment variable KUBECONFIG overrides it")
	cli.Marked(f, cli.MarkNew, "kubeconfig")
}

// Validate lists the mistakes.
func (a *APIAccess) Validate() []error {
	return []error{
		cli.Need(!math.IsNaN(float64(a.KubeAPIQPS)), "--kube-api-qps=%v: must be a number", a.KubeAPIQPS),
		cli.Need(a.KubeAPIBurst >= 0, "--kube-api-burst=%d: must not be negative", a.KubeAPIBurst),
	}
}

// find reads the kubeconfig, or else uses the in-cluster configuration (ST-2, EN-6). KUBECONFIG
// wins over the flag (EN-1).
func (a *APIAccess) find() (*rest.Config, error) {
	from, path := "--kubeconfig", a.Kubeconfig
	if env := os.Getenv("KUBECONFIG"); env != "" {
		from, path = "KUBECONFIG", env
	}
	if a.Master == "" && path == "" {
		api, err := rest.InClusterConfig()
		if err != nil {
			err = fmt.Errorf("api server: %w; give --kubeconfig when not running in a cluster", err)
		}
		return api, err
	}
	if path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	}
	api, err := clientcmd.BuildConfigFromFlags(a.Master, path)
	if err != nil {
		if path == "" {
			return nil, fmt.Errorf("--master=%s: %w", a.Master, err)
		}
		return nil, fmt.Errorf("%s=%s: no kubeconfig that can be used: %w", from, path, err)
	}
	return api, nil
}

// Config returns the configuration for requests to the API server. Without any setting it is the
// in-cluster configuration.
func (a *APIAccess) Config(userAgent string) (*rest.Config, error) {
	api := a.API
	if api == nil {
		var err error
		if api, err = a.find(); err != nil {
			return nil, err
		}
	}
	api = rest.CopyConfig(api)
	api.UserAgent = userAgent
	api.QPS, api.Burst = a.limits()
	if a.ShareThrottle(); a.throttle != nil {
		api.RateLimiter = a.throttle
	}
	return api, nil
}

// limits returns --kube-api-qps and --kube-api-burst. A negative qps disables the client's limit.
func (a *APIAccess) limits() (qps float32, burst int) {
	switch {
	case a.KubeAPIQPS <= 0: // as upstream, a negative one disables the limit (F-49)
		return -1, a.KubeAPIBurst
	case a.KubeAPIBurst == 0:
		return a.KubeAPIQPS, int(2*a.KubeAPIQPS) + 1
	}
	return a.KubeAPIQPS, a.KubeAPIBurst
}

// ShareThrottle makes one rate limit for all requests of the process except those for its leases,
// which have their own, so that a busy leader does not lose its lease.
func (a *APIAccess) ShareThrottle() {
	if qps, burst := a.limits(); a.throttle == nil && qps > 0 {
		a.throttle = kube.NewThrottle(qps, burst)
	}
}

// CountThrottle registers a metric of the time that requests wait for the rate limit (8.9).
func (a *APIAccess) CountThrottle(registry prometheus.Registerer) {
	if a.throttle != nil {
		a.throttle.Tell(telemetry.NewCounter(registry, telemetry.MetricThrottled).WithLabelValues().Add)
	}
}
