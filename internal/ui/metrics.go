package ui

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics of the roles that the page of numbers shows, as the dashboard of deploy/monitoring does.
const (
	metricCalls     = "csi_sidecar_operations_seconds"
	metricDecisions = "purser_decisions_total"
	labelMethod     = "method_name"
	labelCode       = "grpc_status_code"
	labelReason     = "reason"
)

// Scrape are the metrics of all roles at one time.
type Scrape struct {
	At       time.Time
	families map[string][]*dto.Metric
}

// NewScrape returns a scrape without metrics.
func NewScrape(at time.Time) *Scrape { return &Scrape{at, map[string][]*dto.Metric{}} }

// Add reads the metrics that a role has served, in the text format of Prometheus.
func (s *Scrape) Add(text io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	for _, name := range []string{metricCalls, metricDecisions} {
		if family := families[name]; family != nil {
			s.families[name] = append(s.families[name], family.GetMetric()...)
		}
	}
	return nil
}

// rateView is how often something happened in a second, by the metrics of the roles.
type rateView struct {
	Name, Code string
	Second     float64
	Half, Most time.Duration // percentiles 50 and 99 of calls
}

// Rates are the metrics of the roles between two scrapes.
type Rates struct{ First, Last *Scrape }

// Span returns the time between the scrapes.
func (r *Rates) Span() time.Duration { return r.Last.At.Sub(r.First.At) }

// Decisions are those by reason: sum by (reason) (rate(...)).
func (r *Rates) Decisions() (all []rateView) {
	counts := map[string]float64{}
	for sign, scrape := range map[float64]*Scrape{1: r.Last, -1: r.First} {
		for _, m := range scrape.families[metricDecisions] {
			counts[label(m, labelReason)] += sign * m.GetCounter().GetValue()
		}
	}
	const most = 10
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		if counts[reason] > 0 {
			all = append(all, rateView{Name: reason, Second: counts[reason] / r.Span().Seconds()})
		}
	}
	slices.SortStableFunc(all, func(a, b rateView) int { return cmp.Compare(b.Second, a.Second) })
	return firstOf(most, all)
}

// Calls are those by method and code, with the percentiles of histogram_quantile.
func (r *Rates) Calls() (all []rateView) {
	buckets := map[[2]string]map[float64]float64{}
	for sign, scrape := range map[float64]*Scrape{1: r.Last, -1: r.First} {
		for _, m := range scrape.families[metricCalls] {
			key := [2]string{label(m, labelMethod), label(m, labelCode)}
			if buckets[key] == nil {
				buckets[key] = map[float64]float64{}
			}
			buckets[key][math.Inf(1)] += sign * float64(m.GetHistogram().GetSampleCount())
			for _, b := range m.GetHistogram().GetBucket() {
				if !math.IsInf(b.GetUpperBound(), 1) {
					buckets[key][b.GetUpperBound()] += sign * float64(b.GetCumulativeCount())
				}
			}
		}
	}
	for key, counts := range buckets {
		if n := counts[math.Inf(1)]; n > 0 {
			all = append(all, rateView{
				Name: key[0], Code: key[1], Second: n / r.Span().Seconds(), Half: quantileOf(counts, 0.5),
				Most: quantileOf(counts, 0.99),
			})
		}
	}
	slices.SortFunc(all, func(a, b rateView) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// quantileOf interpolates within a bucket, as histogram_quantile does. What is above the last bucket
// counts as its bound.
func quantileOf(counts map[float64]float64, part float64) time.Duration {
	rank, below, bound := part*counts[math.Inf(1)], 0.0, 0.0
	for _, upper := range slices.Sorted(maps.Keys(counts)) {
		if counts[upper] >= rank && !math.IsInf(upper, 1) {
			share := 1.0
			if inside := counts[upper] - below; inside > 0 {
				share = (rank - below) / inside
			}
			return time.Duration((bound + (upper-bound)*share) * float64(time.Second))
		}
		if !math.IsInf(upper, 1) {
			below, bound = counts[upper], upper
		}
	}
	return time.Duration(bound * float64(time.Second))
}

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
