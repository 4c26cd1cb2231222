package ui

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// Operations are counted when they end, once each, and not those that ended before the record.
func TestOperations(t *testing.T) {
	begin := noon
	claim := func(uid string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(begin)},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	history := life.New(life.Source{Final: &explain.Cluster{Now: at(10)}, Changes: []life.Change{
		{At: begin, Existed: true, Kind: explain.Claim, Object: claim("old", corev1.ClaimBound)},
		{At: at(1), Kind: explain.Claim, Object: claim("a", corev1.ClaimPending)},
		{At: at(2), Kind: explain.Claim, Object: claim("a", corev1.ClaimBound)},
		{At: at(3), Kind: explain.Claim, Object: claim("a", corev1.ClaimBound)},
		{At: at(9), Kind: explain.Claim, Object: claim("b", corev1.ClaimBound)},
		{At: at(9), Kind: explain.Volume, Deleted: true, Object: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "v"},
		}},
	}})
	all := operationsOf(endedIn(history), begin, at(10))
	if len(all) != 2 || all[0].Name != claimsBound || all[0].Total != 2 || all[0].Second != 0.2 || all[0].Peak != 1 ||
		all[1].Name != volumesDeleted || all[1].Total != 1 {
		t.Errorf("operations %+v", all)
	}
}

// Calls are grouped by RPC and code, with their percentiles; decisions are no calls.
func TestCalls(t *testing.T) {
	var calls []life.Call
	for i := range 10 {
		calls = append(calls, life.Call{
			Name: "CreateVolume", Code: "OK", From: noon, To: noon.Add(time.Duration(i+1) * time.Second),
		})
	}
	calls = append(calls, life.Call{Name: "CreateVolume", Code: "Aborted", From: noon, To: noon.Add(time.Second)},
		life.Call{Name: "Provisioning", From: noon, To: noon})
	all := callsOf(calls)
	if len(all) != 2 || all[0].Code != "Aborted" || all[1].Count != 10 || all[1].Half != 6*time.Second ||
		all[1].Most90 != 10*time.Second || all[1].Most != 10*time.Second {
		t.Errorf("calls %+v", all)
	}
}

// The slowest volumes are those that took longest until they were bound, or still take.
func TestSlowest(t *testing.T) {
	s := stateOf(t, objectsText)
	all := numbersOf(s).Slowest
	if len(all) != 2 || all[0].Claim.Name != "stuck" || !all[0].Open || all[0].Took != 12*time.Hour ||
		all[1].Claim.Name != "data" || all[1].Open || all[1].Took != 7*time.Second {
		t.Errorf("slowest %+v", all)
	}
}
