package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	publishing "github.com/purser-csi/purser/internal/capacity"
	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Capacity are the settings of CSIStorageCapacity objects (F-9, F-16 to F-21).
type Capacity struct {
	Enabled          bool
	Namespace        string // of the objects; empty for that of the environment
	ImmediateBinding bool
	Workers          uint
	PollInterval     time.Duration
	MaxAge           time.Duration // 0 for never
	OwnerLevel       int
	KubeAPIQPS       float32
	KubeAPIBurst     int
}

func (c *Capacity) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.Enabled, "enable-capacity", false,
		"publish the free capacity as CSIStorageCapacity objects in the namespace of the environment variable "+
			"NAMESPACE")
	f.BoolVar(&c.ImmediateBinding, "capacity-for-immediate-binding", false, "also for classes with immediate binding")
	f.UintVar(&c.Workers, "capacity-threads", 1, "GetCapacity calls in flight at once")
	f.DurationVar(&c.PollInterval, "capacity-poll-interval", time.Minute,
		"how often GetCapacity is called for each object; the calls are spread over the interval")
	f.DurationVar(&c.MaxAge, "capacity-max-age", 15*time.Minute,
		"how long the last capacity stays published while GetCapacity fails; 0 for without limit, as upstream does")
	f.IntVar(&c.OwnerLevel, "capacity-ownerref-level", 1,
		"owner of the objects: -1 none, 0 the pod of the environment variable POD_NAME, 1 the pod's controller, 2 "+
			"the controller's own, such as a Deployment")
	f.Float32Var(&c.KubeAPIQPS, "kube-api-capacity-qps", 0,
		"API requests per second about capacities, separate from all others; 0 or less for no limit but the API "+
			"server's priority and fairness")
	f.IntVar(
		&c.KubeAPIBurst, "kube-api-capacity-burst", 0,
		"API requests about capacities in a burst, if kube-api-capacity-qps is set",
	)
	with := []string{"enable-capacity", "capacity-controller-deployment-mode"}
	cli.Ranged(f, cli.Range{Least: "1", Most: "10000", With: with}, "capacity-threads")
	cli.Ranged(f, cli.Range{Least: "1ns", Most: "8760h", With: with}, "capacity-poll-interval")
	cli.Ranged(f, cli.Range{Least: "0s", Most: "8760h", With: with}, "capacity-max-age")
	cli.Ranged(f, cli.Range{Least: "-1", Most: strconv.Itoa(maxOwnerLevel), With: with}, "capacity-ownerref-level")
	cli.Ranged(f, cli.Range{Most: "1000000000", With: with}, "kube-api-capacity-qps")
	cli.Ranged(f, cli.Range{Least: "0", Most: "1000000000", With: with}, "kube-api-capacity-burst")
}

// Environment variables that --enable-capacity needs (EN-3, EN-4).
const (
	envNamespace = "NAMESPACE"
	envPodName   = "POD_NAME"
	envNodeName  = "NODE_NAME"
)

// maxOwnerLevel is far more than the levels of controllers above a pod.
const maxOwnerLevel = 10

func (c *Capacity) validate() []error {
	if !c.Enabled { // as upstream, which reads the other flags with it only
		return nil
	}
	return []error{
		cli.Need(os.Getenv(envNamespace) != "",
			"--enable-capacity: needs the environment variable %s, the namespace of the objects; "+
				"in a pod, take it from the field metadata.namespace", envNamespace),
		cli.Need(c.OwnerLevel < 0 || os.Getenv(envPodName) != "",
			"--capacity-ownerref-level=%d: needs the environment variable %s; in a pod, take it from the field "+
				"metadata.name, or give -1",
			c.OwnerLevel, envPodName),
		cli.Need(
			c.OwnerLevel >= -1 &&
				c.OwnerLevel <= maxOwnerLevel, "--capacity-ownerref-level=%d: must be from -1 to %d", c.OwnerLevel,
			maxOwnerLevel,
		),
		cli.Need(c.Workers > 0, "--capacity-threads=0: must be at least 1, or no capacity is published"),
		cli.Need(c.PollInterval > 0, "--capacity-poll-interval=%s: must be more than 0", c.PollInterval),
		cli.Need(c.MaxAge >= 0, "--capacity-max-age=%s: must not be negative", c.MaxAge),
		cli.Need(!math.IsNaN(float64(c.KubeAPIQPS)), "--kube-api-capacity-qps=%v: must be a number", c.KubeAPIQPS),
		cli.Need(c.KubeAPIBurst >= 0, "--kube-api-capacity-burst=%d: must not be negative", c.KubeAPIBurst),
	}
}

// limit returns a configuration with the rate limit of the capacities, which is separate from that
// of all other requests (S-18, H-31).
func (c *Capacity) limit(api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	api.RateLimiter, api.QPS, api.Burst = nil, -1, 0
	if c.KubeAPIQPS > 0 {
		api.RateLimiter = kube.NewThrottle(c.KubeAPIQPS, max(c.KubeAPIBurst, 1))
	}
	return api
}

// addCapacity registers the publisher of capacities, which learns the topology of new volumes from
// the answers to CreateVolume.
func addCapacity(ctx context.Context, p *parts) error {
	publisher, err := p.publisher(ctx)
	if err == nil {
		err = publisher.AddTo(ctx, p.Manager)
	}
	if err != nil {
		return fmt.Errorf("--enable-capacity: %w", err)
	}
	telemetry.NewCapacities(p.Registry, publisher.State)
	p.creator = publisher.Observe(p.creator)
	return nil
}

func (p *parts) publisher(ctx context.Context) (*publishing.Controller, error) {
	c, api := p.role.Capacity, p.role.Capacity.limit(p.API)
	rules, segments, err := p.capacityScope(ctx)
	if err != nil {
		return nil, err
	}
	objects, err := publishing.NewCache(api, rules.Namespace, rules.Driver)
	if err != nil {
		return nil, err
	}
	writer, err := client.New(api, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return nil, err
	}
	if rules.Owner, err = findOwner(ctx, writer, rules.Namespace, os.Getenv(envPodName), c.OwnerLevel); err != nil {
		return nil, err
	}
	settings := p.settings
	settings.Workers = int(c.Workers)
	return publishing.New(publishing.Config{
		Random:   rand.Float64, //nolint:forbidigo // the controller takes it as a parameter
		Settings: settings, Cached: p.Cached, Objects: objects, Live: writer, Writer: writer,
		Rules: rules, Segments: segments, CSI: p.Conn.Controller(), Timeout: p.role.Timeout,
		Poll: c.PollInterval, MaxAge: c.MaxAge, Locks: p.role.Locks, InFlight: p.measures.InFlight,
	}), nil
}

// capacityScope returns the segments whose capacities are published: that of one node, or the
// single one of a driver without topology. segments is nil for the segments of all nodes (S-2, S-5,
// LB-1).
func (w *builder) capacityScope(ctx context.Context) (rules capacity.Rules, segments []capacity.Segment, err error) {
	rules = capacity.Rules{
		Driver: w.Driver.Name, ManagedBy: names.CapacityManager(""),
		Namespace: cmp.Or(w.role.Capacity.Namespace, os.Getenv(envNamespace)),
		Immediate: w.role.Capacity.ImmediateBinding,
	}
	switch {
	case w.role.NodeDeployment.Enabled:
		ctx, cancel := context.WithTimeout(ctx, w.role.Timeout)
		defer cancel()
		info, err := w.Conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		if err != nil {
			return rules, nil, fmt.Errorf("the driver does not say where this node is: NodeGetInfo: %w", err)
		}
		rules.ManagedBy = names.CapacityManager(w.role.NodeDeployment.node())
		return rules, []capacity.Segment{capacity.NewSegment(info.GetAccessibleTopology().GetSegments())}, nil
	case !w.topology():
		return rules, []capacity.Segment{""}, nil
	}
	return rules, nil, nil
}

var errNoOwner = errors.New(
	"it has no controller; give a lower --capacity-ownerref-level, or -1 for objects without an owner",
)
