package binder

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// A bound pair costs little: what the cache keeps of both objects, and what the store has to find
// one by the other.
func TestMemoryOfAPair(t *testing.T) {
	const pairs, most = 20_000, 2500
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	trim := kube.TrimTo(kube.PairFields)
	l := newObjectStore()
	before := heap()
	for i := range pairs {
		claim, pv := boundPair(i)
		for _, o := range []client.Object{claim, pv} {
			kept, err := trim(received(t, o))
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Add(kept); err != nil {
				t.Fatal(err)
			}
			switch kept := kept.(type) {
			case *corev1.PersistentVolumeClaim:
				l.claimSeen(keyOf(kept), kept, kept)
			case *corev1.PersistentVolume:
				l.volumeSeen(kept.Name, kept, kept)
			}
		}
	}
	each := (heap() - before) / pairs
	t.Logf("%d bytes for each of %d pairs", each, pairs)
	if each > most {
		t.Errorf("more than %d bytes", most)
	}
	runtime.KeepAlive(store)
	runtime.KeepAlive(l)
}

// The first lists leave no memory behind, although all claims are delivered before the first
// volume, and each claim waits for its own.
func TestMemoryOfTheFirstList(t *testing.T) {
	const pairs, least = 20_000, 50
	c := New(Config{})
	list := func(l *objectStore) {
		for i := range pairs {
			claim, _ := boundPair(i)
			l.claimSeen(keyOf(claim), claim, claim)
		}
		for i := range pairs {
			_, pv := boundPair(i)
			l.volumeSeen(pv.Name, pv, pv)
		}
	}
	list(c.objectStore)
	listed := heap()
	c.objectStore.keys() // as a new leader asks
	if freed := listed - heap(); freed < pairs*least {
		t.Errorf("%d bytes are given back", freed)
	} else {
		t.Logf("%d bytes a pair are given back", freed/pairs)
	}
	runtime.KeepAlive(c)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// received is an object as a watch has it: nothing of it is shared.
func received[T client.Object](t *testing.T, o T) T {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	switch into := any(o.DeepCopyObject()).(type) {
	case *corev1.PersistentVolumeClaim:
		*into = corev1.PersistentVolumeClaim{}
		err = json.Unmarshal(text, into)
		o = any(into).(T)
	case *corev1.PersistentVolume:
		*into = corev1.PersistentVolume{}
		err = json.Unmarshal(text, into)
		o = any(into).(T)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func boundPair(i int) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	uid := types.UID(fmt.Sprintf("0b5e1f42-7d1c-4f3e-9a52-%012d", i))
	claim := liveClaim(fmt.Sprint("data-database-", i), "gold")
	claim.UID, claim.ResourceVersion, claim.CreationTimestamp = uid, fmt.Sprint(100000+i), metav1.Unix(int64(i), 0)
	claim.Labels = map[string]string{"app": fmt.Sprint("database-", i)}
	claim.Finalizers = []string{names.FinalizerPVCProtection}
	claim.Annotations = map[string]string{
		names.AnnBindCompleted: "yes", names.AnnBoundByController: "yes", names.AnnStorageProvisioner: "d", names.AnnBetaStorageProvisioner: "d",
	}
	claim.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "purser", FieldsV1: metav1.NewFieldsV1("{}")}}
	pv := provisioned("pvc-"+string(uid), claim)
	pv.UID, pv.ResourceVersion, pv.CreationTimestamp = types.UID("1"+string(uid[1:])), fmt.Sprint(200000+i), metav1.Unix(int64(i), 0)
	pv.Finalizers = []string{names.FinalizerVolume, names.FinalizerPVProtection}
	pv.Spec.CSI.VolumeAttributes = map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "x"}
	pv.Status.Phase = corev1.VolumeBound
	claim.Spec.VolumeName, claim.Status.Phase = pv.Name, corev1.ClaimBound
	claim.Status.AccessModes, claim.Status.Capacity = claim.Spec.AccessModes, claim.Spec.Resources.Requests
	return claim, pv
}
