package resize

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

type emitted []string

func (e *emitted) Event(_ runtime.Object, kind, reason, message string) {
	*e = append(*e, kind+" "+reason+" "+message)
}

func of(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// growing creates a claim that requests 2Gi and has 1Gi, with its volume.
func growing(t *testing.T, api client.Client, source corev1.PersistentVolumeSource) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "v", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: of("2Gi")},
		},
	}
	try(t, api.Create(t.Context(), claim))
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, of("1Gi")
	try(t, api.Status().Update(t.Context(), claim))
	try(t, api.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: of("1Gi"), AccessModes: claim.Spec.AccessModes, PersistentVolumeSource: source,
		ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "c", UID: claim.UID},
	}}))
	return claim
}

// 3.4: the event that an external resizer has to expand the volume is emitted once for each size,
// and a migrated volume gets the annotation with its resizer.
func TestExpand(t *testing.T) {
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "v"}}
	ebs := corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1"}}
	for name, test := range map[string]struct {
		source        corev1.PersistentVolumeSource
		event, resize string
	}{
		"CSI":      {csi, "Normal ExternalExpanding waiting for an external controller to expand this PVC", ""},
		"migrated": {ebs, "Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc", "ebs.csi.aws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			api, events := apiserver.New().Client(), &emitted{}
			claim := growing(t, api, test.source)
			cached := kube.NewOverlay(api, clock.RealClock{})
			c := NewExpansion(ExpansionConfig{
				Cached: cached, Writer: cached.Recording(api), Settings: reconcile.Settings{
					Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}, Events: events, Clock: clocktesting.NewFakeClock(time.Now()),
					Decided: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "d"}, []string{"controller", "reason"}),
				},
			}).Loop()
			var version string
			for range 3 {
				_, err := c.Reconcile(t.Context(), keyOf(claim))
				try(t, err)
				try(t, api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
				if version != "" && version != claim.ResourceVersion {
					t.Error("it is written again")
				}
				version = claim.ResourceVersion
			}
			if !slices.Equal(*events, emitted{test.event}) {
				t.Errorf("told %q", *events)
			}
			if have := claim.Annotations[names.AnnStorageResizer]; have != test.resize {
				t.Errorf("the resizer is %q", have)
			}
		})
	}
}

// A claim is enqueued when it requests more, when it requests another size, and when it has the
// requested size.
func TestEventHandlers(t *testing.T) {
	small, grows, more := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
	for claim, asks := range map[*corev1.PersistentVolumeClaim]string{small: "1Gi", grows: "2Gi", more: "3Gi"} {
		claim.Status.Phase, claim.Status.Capacity, claim.Spec.Resources.Requests = corev1.ClaimBound, of("1Gi"), of(asks)
	}
	for name, test := range map[string]struct {
		before, now *corev1.PersistentVolumeClaim
		want        []resizing.Key
	}{
		"nothing to do":    {small, small, nil},
		"asks for more":    {small, grows, []resizing.Key{keyOf(grows)}},
		"still waits":      {grows, grows, nil},
		"asks for another": {grows, more, []resizing.Key{keyOf(grows), keyOf(more)}},
		"has it":           {grows, small, []resizing.Key{keyOf(grows)}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[resizing.Key]())
			defer q.ShutDown()
			claimChanges().Update(context.Background(), event.TypedUpdateEvent[*corev1.PersistentVolumeClaim]{ObjectOld: test.before, ObjectNew: test.now}, q)
			var got []resizing.Key
			for q.Len() > 0 {
				key, _ := q.Get()
				got = append(got, key)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("enqueues %v, want %v", got, test.want)
			}
		})
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
