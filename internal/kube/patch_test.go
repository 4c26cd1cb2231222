package kube

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// A condition that is written has none of the text of the one before, and other conditions stay.
func TestConditionReplacesTheOneBefore(t *testing.T) {
	at := metav1.NewTime(time.Unix(1e9, 0).UTC())
	other := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, Reason: "Other"}
	before := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{
		Conditions: []corev1.PersistentVolumeClaimCondition{
			{Type: "Unused", Status: corev1.ConditionTrue, Reason: "Old", Message: "old", LastProbeTime: at, LastTransitionTime: at}, other,
		},
	}}
	want := corev1.PersistentVolumeClaimCondition{Type: "Unused", Status: corev1.ConditionFalse}
	patch, err := SetClaimCondition("uid", want).Data(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = strategicpatch.StrategicMergePatch(text, patch, before); err != nil {
		t.Fatal(err)
	}
	after := &corev1.PersistentVolumeClaim{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.PersistentVolumeClaimCondition{want, other}, after.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}
