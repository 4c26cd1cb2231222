package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

func entry(status csi.VolumeHealthErrorType, reason, message string) *csi.VolumeHealth_VolumeHealthEntry {
	return &csi.VolumeHealth_VolumeHealthEntry{Status: status, Reason: reason, Message: message}
}

func answer(entries ...*csi.VolumeHealth_VolumeHealthEntry) *csi.VolumeHealth {
	return &csi.VolumeHealth{VolumeId: "v", HealthStatuses: entries}
}

const (
	degraded     = csi.VolumeHealthErrorType_DEGRADED
	inaccessible = csi.VolumeHealthErrorType_INACCESSIBLE
	dataLoss     = csi.VolumeHealthErrorType_DATA_LOSS
)

// HM-24, HM-25, HM-44, HM-47: which conditions an answer has.
func TestReportOf(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []*csi.VolumeHealth_VolumeHealthEntry
		want    string // identity
		unknown []int32
	}{
		"HM-25: an empty answer is no problem": {},
		"HM-24: the three statuses": {
			entries: []*csi.VolumeHealth_VolumeHealthEntry{
				entry(inaccessible, "A", ""), entry(dataLoss, "B", ""), entry(degraded, "C", ""),
			},
			want: "DataLoss/B Degraded/C Inaccessible/A",
		},
		"HM-44: sorted by status and reason": {
			entries: []*csi.VolumeHealth_VolumeHealthEntry{entry(degraded, "B", ""), entry(degraded, "A", "")},
			want:    "Degraded/A Degraded/B",
		},
		"HM-25: one of two with the same identity": {
			entries: []*csi.VolumeHealth_VolumeHealthEntry{entry(degraded, "A", "1"), entry(degraded, "A", "2")},
			want:    "Degraded/A",
		},
		"HM-47: an unknown status is not stored": {
			entries: []*csi.VolumeHealth_VolumeHealthEntry{
				entry(9, "A", ""), entry(0, "A", ""), entry(9, "B", ""), entry(degraded, "A", ""),
			},
			want: "Degraded/A", unknown: []int32{0, 9},
		},
		"HM-30: a reason that the API server refuses": {
			entries: []*csi.VolumeHealth_VolumeHealthEntry{
				entry(degraded, " 3-disk failure!:", ""), entry(inaccessible, "", ""), entry(dataLoss, "__", ""),
			},
			want: "DataLoss/Unspecified Degraded/diskfailure Inaccessible/Unspecified",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ReportOf(answer(tc.entries...))
			if identity(got.Conditions) != tc.want || !slices.Equal(got.Unknown, tc.unknown) {
				t.Errorf("got %q and %v, want %q and %v", identity(got.Conditions), got.Unknown, tc.want, tc.unknown)
			}
		})
	}
	if got := ReportOf(nil); len(got.Conditions) != 0 {
		t.Errorf("no answer: %v", got)
	}
}

// HM-30, HM-H2: what exceeds a limit is cut, between two characters, and the worst conditions are kept.
func TestReportWithinLimits(t *testing.T) {
	long := entry(degraded, strings.Repeat("R", 300), strings.Repeat("ä", 600))
	got := ReportOf(answer(long)).Conditions[0]
	if len(got.Reason) != mostReason || len(got.Message) != mostMessage || !utf8.ValidString(got.Message) {
		t.Errorf("a reason of %d and a message of %d bytes", len(got.Reason), len(got.Message))
	}
	var many []*csi.VolumeHealth_VolumeHealthEntry
	for i := range 20 {
		many = append(many, entry(degraded, fmt.Sprintf("R%02d", i), ""))
	}
	many = append(many, entry(dataLoss, "Lost", ""), entry(inaccessible, "Gone", ""))
	all := ReportOf(answer(many...)).Conditions
	if len(all) != MostConditions || Worst(all) != corev1.VolumeHealthDataLoss ||
		!strings.Contains(identity(all), "Inaccessible/Gone") {
		t.Errorf("%d conditions are kept: %s", len(all), identity(all))
	}
}

// HM-H2, HM-47: of an answer beyond all measure only a part is read.
func TestReportOfManyStatuses(t *testing.T) {
	var many []*csi.VolumeHealth_VolumeHealthEntry
	for i := range mostStatuses {
		many = append(many, entry(csi.VolumeHealthErrorType(1000-i), "R", ""))
	}
	got := ReportOf(answer(append(many, entry(dataLoss, "Bad", ""))...))
	if len(got.Conditions) != 0 || !slices.Equal(got.Unknown, []int32{745, 746, 747, 748}) {
		t.Errorf("read: %v, unknown: %v", got.Conditions, got.Unknown)
	}
	if got := ReportOf(answer(append(many[1:], entry(dataLoss, "Bad", ""))...)); len(got.Conditions) != 1 {
		t.Errorf("the last one within the limit is not read: %v", got.Conditions)
	}
}

// An event has the worst first, and fits into its limit of 1024 bytes.
func TestText(t *testing.T) {
	all := ReportOf(answer(entry(degraded, "Slow", "one path"), entry(dataLoss, "Bad", ""))).Conditions
	if got := Text(all); got != "DataLoss (Bad); Degraded (Slow): one path" {
		t.Error(got)
	}
	var many []*csi.VolumeHealth_VolumeHealthEntry
	for i := range 16 {
		many = append(many, entry(degraded, fmt.Sprintf("R%02d", i), strings.Repeat("ä", 500)))
	}
	if got := Text(ReportOf(answer(many...)).Conditions); len(got) > mostEvent || !utf8.ValidString(got) {
		t.Errorf("a text of %d bytes", len(got))
	}
	if Worst(nil) != "" || Text(nil) != "" {
		t.Error("no conditions have a text")
	}
}
