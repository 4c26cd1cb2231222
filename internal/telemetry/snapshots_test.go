package telemetry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ended returns the operations that ended, as "driver name type status count seconds", sorted.
func ended(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, line := range family.GetMetric() {
			if family.GetName() != "snapshot_controller_operation_total_seconds" {
				continue
			}
			labels := map[string]string{}
			for _, label := range line.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if keys := slices.Sorted(maps.Keys(labels)); strings.Join(keys, ",") != "driver_name,operation_name,operation_status,snapshot_type" {
				t.Errorf("SN-M1: labels %v", keys)
			}
			if n := len(line.GetHistogram().GetBucket()); n != 13 {
				t.Errorf("SN-M1: %d buckets, want 13", n)
			}
			all = append(all, fmt.Sprint(labels["driver_name"], " ", labels["operation_name"], " ", labels["snapshot_type"], " ",
				labels["operation_status"], " ", line.GetHistogram().GetSampleCount(), " ", line.GetHistogram().GetSampleSum()))
		}
	}
	slices.Sort(all)
	return all
}

func inFlight(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "snapshot_controller_operations_in_flight" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// SN-M1: each case is a list of states, one a second.
func TestSnapshotOperations(t *testing.T) {
	new, taken, ready := SnapshotState{}, SnapshotState{Taken: true}, SnapshotState{Taken: true, Ready: true}
	deleting, gone := SnapshotState{Deleting: true}, SnapshotState{Deleting: true, Gone: true}
	for name, test := range map[string]struct {
		group, preProvisioned, unknown bool
		states                         []SnapshotState
		want                           []string
		left                           float64
	}{
		"SN-M1: taken, ready, deleted": {
			states: []SnapshotState{new, new, taken, ready, ready, deleting, deleting, gone},
			want: []string{
				"d CreateSnapshot dynamic success 1 2", "d CreateSnapshotAndReady dynamic success 1 3", "d DeleteSnapshot dynamic success 1 2",
			},
		},
		"SN-M1: pre-provisioned has no CreateSnapshot": {
			preProvisioned: true,
			states:         []SnapshotState{new, ready},
			want:           []string{"d CreateSnapshotAndReady pre-provisioned success 1 1"},
		},
		"SN-M1: ready before this process": {states: []SnapshotState{ready, ready}},
		"SN-M1: still being taken":         {states: []SnapshotState{new, taken}, want: []string{"d CreateSnapshot dynamic success 1 1"}, left: 1},
		"SN-M1: deleted before it was taken": {
			states: []SnapshotState{new, deleting, gone},
			want: []string{
				"d CreateSnapshot dynamic cancel 1 2", "d CreateSnapshotAndReady dynamic cancel 1 2", "d DeleteSnapshot dynamic success 1 1",
			},
		},
		"SN-M1: group": {
			group:  true,
			states: []SnapshotState{new, ready, deleting, gone},
			want: []string{
				"d CreateGroupSnapshot dynamic success 1 1", "d CreateGroupSnapshotAndReady dynamic success 1 1", "d DeleteGroupSnapshot dynamic success 1 1",
			},
		},
		"SN-M1: driver never known": {
			unknown: true, preProvisioned: true, states: []SnapshotState{new, ready},
			want: []string{"unknown CreateSnapshotAndReady pre-provisioned success 1 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			operations := NewSnapshotOperations(registry)
			for i, s := range test.states {
				s.UID, s.Group, s.PreProvisioned = "uid", test.group, test.preProvisioned
				s.Driver = func() string { // known from the second state on only
					if test.unknown || i == 0 {
						return ""
					}
					return "d"
				}
				operations.Observe(time.Unix(int64(i), 0), s)
			}
			if got := ended(t, registry); !slices.Equal(got, test.want) {
				t.Errorf("ended %q, want %q", got, test.want)
			}
			if got := inFlight(t, registry); got != test.left {
				t.Errorf("%v operations in flight, want %v", got, test.left)
			}
		})
	}
}
