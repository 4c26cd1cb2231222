package binder

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/telemetry"
)

// bound limits how long one scrape may wait for the initial list of objects.
const bound = 5 * time.Second

// notAvailable is upstream's label value for a volume of an unknown kind.
const notAvailable = "N/A"

// StateCollector implements prometheus.Collector.
type StateCollector struct {
	cached  client.Reader
	elected <-chan struct{}
	descs   map[string]*prometheus.Desc
}

// NewStateCollector returns a collector over a cached reader. It counts once elected is closed, so that
// the sum over all replicas is right.
func NewStateCollector(cached client.Reader, elected <-chan struct{}) *StateCollector {
	c := &StateCollector{cached: cached, elected: elected, descs: map[string]*prometheus.Desc{}}
	for _, m := range telemetry.StateMetrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *StateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector. Objects that cannot be read are left out.
func (c *StateCollector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	var volumes corev1.PersistentVolumeList
	if err := c.cached.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err == nil {
		c.send(out, countVolumes(volumes.Items))
	}
	var claims corev1.PersistentVolumeClaimList
	if err := c.cached.List(ctx, &claims, client.UnsafeDisableDeepCopy); err == nil {
		c.send(out, countClaims(claims.Items))
	}
}

// group is one metric with its label values, at most three.
type group struct {
	metric string
	labels [3]string
	used   int
}

type counts map[group]int

func (c counts) add(m telemetry.Metric, labels ...string) {
	g := group{metric: m.Name, used: len(labels)}
	copy(g.labels[:], labels)
	c[g]++
}

func (c *StateCollector) send(out chan<- prometheus.Metric, n counts) {
	for g, number := range n {
		out <- prometheus.MustNewConstMetric(
			c.descs[g.metric], prometheus.GaugeValue, float64(number), g.labels[:g.used]...,
		)
	}
}

func countVolumes(volumes []corev1.PersistentVolume) counts {
	n := counts{}
	for i := range volumes {
		pv := &volumes[i]
		n.add(
			telemetry.MetricTotalVolumes,
			plugin(pv),
			string(ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)),
		)
		metric := telemetry.MetricUnboundVolumes
		if pv.Status.Phase == corev1.VolumeBound {
			metric = telemetry.MetricBoundVolumes
		}
		n.add(metric, pv.Spec.StorageClassName)
	}
	return n
}

func countClaims(claims []corev1.PersistentVolumeClaim) counts {
	n := counts{}
	for i := range claims {
		claim := &claims[i]
		metric := telemetry.MetricUnboundClaims
		if claim.Status.Phase == corev1.ClaimBound {
			metric = telemetry.MetricBoundClaims
		}
		class := cmp.Or(claim.Annotations[names.AnnBetaStorageClass], ptr.Deref(claim.Spec.StorageClassName, ""))
		n.add(metric, claim.Namespace, class, ptr.Deref(claim.Spec.VolumeAttributesClassName, ""))
	}
	return n
}

// plugin returns upstream's name for the kind of a volume.
func plugin(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.CSI != nil:
		return "kubernetes.io/csi:" + pv.Spec.CSI.Driver
	case pv.Spec.HostPath != nil:
		return "kubernetes.io/host-path"
	case pv.Spec.Local != nil:
		return "kubernetes.io/local-volume"
	case pv.Spec.NFS != nil:
		return "kubernetes.io/nfs"
	}
	return notAvailable
}
