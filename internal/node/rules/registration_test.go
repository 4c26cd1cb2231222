package mounting

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// 5.12, ND-9: which drivers are written again after the Node, the CSINode or an entry of it is gone.
func TestUnwritten(t *testing.T) {
	both := []string{"a", "b"}
	for row, tc := range map[string]struct {
		edit func(*Registration)
		want []string
	}{
		"all is written":                 {func(*Registration) {}, nil},
		"no Node":                        {func(r *Registration) { r.Node = nil }, nil},
		"no Node and no CSINode":         {func(r *Registration) { r.Node, r.CSINode = nil, nil }, nil},
		"another Node of the name":       {func(r *Registration) { r.Node.UID, r.CSINode = "2", nil }, both},
		"a CSINode of the previous Node": {func(r *Registration) { r.Node.UID = "2" }, both},
		"a CSINode of the previous Node, written to the new one": {func(r *Registration) {
			r.Node.UID, r.Written = "2", map[string]types.UID{"a": "2", "b": "2"}
		}, both},
		"no CSINode":              {func(r *Registration) { r.CSINode = nil }, both},
		"a CSINode without owner": {func(r *Registration) { r.CSINode.OwnerReferences = nil }, nil},
		"a CSINode of other kinds": {func(r *Registration) {
			r.CSINode.OwnerReferences[0].Kind, r.CSINode.OwnerReferences[0].UID = "Pod", "p"
		}, nil},
		"an entry is gone":     {func(r *Registration) { r.CSINode.Spec.Drivers = r.CSINode.Spec.Drivers[1:] }, []string{"a"}},
		"another limit":        {func(r *Registration) { r.Written["b"] = "" }, []string{"b"}},
		"no driver registered": {func(r *Registration) { r.Written, r.CSINode = nil, nil }, nil},
	} {
		r := Registration{
			Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "1"}},
			CSINode: &storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "1"}}},
				Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "a"}, {Name: "b"}, {Name: "of another program"}}},
			},
			Written: map[string]types.UID{"a": "1", "b": "1"},
		}
		tc.edit(&r)
		if got := r.Unwritten(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", row, got, tc.want)
		}
	}
}

// ND-8: when a driver is asked again for the limit of the node.
func TestLimitDue(t *testing.T) {
	for row, tc := range map[string]struct {
		period    *int64
		exhausted bool
		want      time.Duration // negative: never
	}{
		"no period":              {nil, false, -1},
		"no period, exhausted":   {nil, true, -1},
		"zero":                   {new(int64(0)), true, -1},
		"a minute":               {new(int64(60)), false, time.Minute},
		"shorter than allowed":   {new(int64(1)), false, MinLimitInterval},
		"exhausted":              {new(int64(3600)), true, MinLimitInterval},
		"longer than a Duration": {new(int64(1 << 62)), false, maxLimitInterval},
	} {
		info := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: tc.period}}
		due := LimitDue(info, now, tc.exhausted)
		if never := tc.want < 0; never != due.IsZero() || !never && due.Sub(now) != tc.want {
			t.Errorf("%s: %s, want %s", row, due.Sub(now), tc.want)
		}
	}
	if !LimitDue(nil, now, true).IsZero() {
		t.Error("without a CSIDriver there is no period")
	}
}

// The code of the driver's answer is in the attachment.
func TestIsExhausted(t *testing.T) {
	for code, want := range map[codes.Code]bool{codes.ResourceExhausted: true, codes.Internal: false} {
		number := int32(code) //nolint:gosec // gRPC codes are below 17
		va := &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{ErrorCode: &number}}}
		if IsExhausted(va) != want {
			t.Errorf("%s: want %t", code, want)
		}
	}
	va := &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{}}}
	if IsExhausted(&storagev1.VolumeAttachment{}) || IsExhausted(va) {
		t.Error("no code")
	}
}
