package kube

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// 10: another binder is reported once. A client that restores a claim, wrote before the start of
// this process, or changes its own claim is not reported. The number of reported names is bounded.
func TestForeignBinders(t *testing.T) {
	began := time.Unix(1000, 0)
	fields := func(volume string) *metav1.FieldsV1 {
		return metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + names.AnnBindCompleted + `":{}}}` + volume + `}`)
	}
	wrote := func(manager string, at int64, edits ...func(*metav1.ManagedFieldsEntry)) metav1.ManagedFieldsEntry {
		entry := metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: new(metav1.Unix(at, 0)), FieldsV1: fields(`,"f:spec":{"f:volumeName":{}}`),
		}
		for _, edit := range edits {
			edit(&entry)
		}
		return entry
	}
	var seen []string
	trim := DetectForeignBinders(ForeignBinders{Manager: "ours", Since: began, Found: func(manager, claim string) { seen = append(seen, manager+" "+claim) }}, TrimTo(PairFields))
	entries := []metav1.ManagedFieldsEntry{
		wrote("ours", 2000), wrote("before", 900), wrote("restore", 1500),
		{Manager: "odd"},
		wrote("scheduler", 2000, func(e *metav1.ManagedFieldsEntry) {
			e.FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + names.AnnSelectedNode + `":{}}}}`)
		}),
		wrote("apply", 2000, func(e *metav1.ManagedFieldsEntry) { e.Operation = metav1.ManagedFieldsOperationApply }),
		wrote("annotate", 2000, func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = fields("") }),
		wrote("stock", 2000), wrote("stock", 2001),
	}
	want := []string{"stock ns/claim"}
	for i := range 2 * mostManagers {
		entries = append(entries, wrote(fmt.Sprint("made-up-", i), 2000))
		if i < mostManagers-1 {
			want = append(want, fmt.Sprintf("made-up-%d ns/claim", i))
		}
	}
	want = append(want, OtherManagers+" ns/claim")
	for _, entry := range entries {
		claim := boundClaim()
		claim.CreationTimestamp = metav1.Unix(1500, 0)
		claim.ManagedFields = []metav1.ManagedFieldsEntry{entry}
		if _, err := trim(claim); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
