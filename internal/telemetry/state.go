package telemetry

// The metrics about all claims and volumes of the cluster, with upstream's names and labels (1.16).
var (
	MetricTotalVolumes = Metric{
		"pv_collector_total_pv_count", "gauge",
		[]string{"plugin_name", "volume_mode"},
		"PersistentVolumes, by kind and volume mode.",
	}
	MetricBoundVolumes = Metric{
		"pv_collector_bound_pv_count", "gauge",
		[]string{"storage_class"},
		"PersistentVolumes that are bound, by class.",
	}
	MetricUnboundVolumes = Metric{
		"pv_collector_unbound_pv_count", "gauge",
		[]string{"storage_class"},
		"PersistentVolumes that are not bound, by class.",
	}
	MetricBoundClaims = Metric{
		"pv_collector_bound_pvc_count", "gauge",
		[]string{"namespace", "storage_class", "volume_attributes_class"},
		"PersistentVolumeClaims that are bound, by namespace and classes.",
	}
	MetricUnboundClaims = Metric{
		"pv_collector_unbound_pvc_count", "gauge",
		[]string{"namespace", "storage_class", "volume_attributes_class"},
		"PersistentVolumeClaims that are not bound, by namespace and classes.",
	}
	// StateMetrics lists these metrics.
	StateMetrics = []Metric{
		MetricTotalVolumes, MetricBoundVolumes, MetricUnboundVolumes, MetricBoundClaims, MetricUnboundClaims,
	}
)
