package telemetry

// MetricDataSources is upstream's metric of its validator (DV-6).
var MetricDataSources = Metric{
	"volume_data_source_validator_operation_count", "counter",
	[]string{"result"},
	"Checks of claims by the validator of data sources. The results are empty for a claim without a source, pvc, " +
		"snapshot, populator for a kind that a VolumePopulator names, and invalid.",
}
