package floor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/test/bench/runner"
)

// watches are what the API server has sent to all watches of a resource so far, and how many there are.
type watches map[string]watch

type watch struct{ bytes, open float64 }

// metricLine is a sample of the page of metrics with the resource that it is about.
var metricLine = regexp.MustCompile(
	`^(apiserver_watch_events_sizes_sum|apiserver_longrunning_requests)\{(.*?)\} (\S+)$`)

var (
	groupLabel    = regexp.MustCompile(`(?:^|,)group="([^"]*)"`)
	resourceLabel = regexp.MustCompile(`(?:^|,)resource="([^"]*)"`)
	watchLabel    = regexp.MustCompile(`(?:^|,)verb="WATCH"`)
)

// watched reads the metrics of the API server.
func (b *bench) watched(ctx context.Context) (watches, error) {
	config := b.Cluster.RESTConfig()
	api, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	page, err := runner.Get(ctx, api, config.Host+"/metrics")
	if err != nil {
		return nil, err
	}
	return parseWatches(page)
}

func parseWatches(page []byte) (watches, error) {
	all := watches{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, len(page)+1)
	for lines.Scan() {
		match := metricLine.FindSubmatch(lines.Bytes())
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(string(match[3]), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of the API server: %w", err)
		}
		name := label(groupLabel, match[2]) + "/" + label(resourceLabel, match[2])
		one := all[name]
		switch {
		case string(match[1]) != "apiserver_longrunning_requests":
			one.bytes += value
		case watchLabel.Match(match[2]):
			one.open += value
		}
		all[name] = one
	}
	return all, lines.Err()
}

func label(pattern *regexp.Regexp, labels []byte) string {
	if match := pattern.FindSubmatch(labels); match != nil {
		return string(match[1])
	}
	return ""
}

// since returns the bytes that a contender has received since an earlier reading. Each watch of a
// resource gets the same events, so its part is that of its watches: those that are not there without it.
func (w watches) since(before, resting watches) (bytes float64) {
	for resource, now := range w {
		if own := now.open - resting[resource].open; own > 0 {
			bytes += (now.bytes - before[resource].bytes) * own / now.open
		}
	}
	return bytes
}
