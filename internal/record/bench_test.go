package record

import (
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/names"
)

const (
	manyVolumes = 10_000
	manyNodes   = 200
)

// largeRecord is the record of many volumes, each with a pod on one of the nodes. Of volume 7 the pod waits
// for half a minute to be scheduled, while the others change.
func largeRecord(tb testing.TB) *Record {
	tb.Helper()
	out := &buffer{}
	now := start
	w := NewWriter(out, "bench", func() time.Time { return now })
	version := 0
	write := func(seen inventory.Seen) {
		version++
		o := seen.Object
		o.SetResourceVersion(fmt.Sprint(version))
		if at := o.GetCreationTimestamp(); at.IsZero() {
			o.SetCreationTimestamp(metav1.NewTime(now))
		}
		if o.GetUID() == "" {
			o.SetUID(types.UID(fmt.Sprintf("%T/%s", o, o.GetName())))
		}
		w.Object(seen)
		now = now.Add(time.Millisecond)
	}
	_ = w.Begin()
	write(inventory.Seen{Object: class(), Initial: true})
	for i := range manyNodes {
		name := fmt.Sprint("node-", i)
		write(inventory.Seen{Initial: true, Object: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}},
		}})
		write(inventory.Seen{Initial: true, Object: &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: name}}},
		}})
	}
	if err := w.Listed(nil); err != nil {
		tb.Fatal(err)
	}
	var waiting []func()
	for i := range manyVolumes {
		steps := stepsOfVolume(i, write)
		if i == 7 {
			waiting, steps = steps[3:], steps[:3]
		}
		for _, step := range steps {
			step()
		}
	}
	for _, step := range waiting {
		step()
	}
	r, err := Load(map[string][]byte{"r": out.Bytes()})
	if err != nil || len(r.Notes) > 0 {
		tb.Fatal(err, r.Notes)
	}
	return r
}

// stepsOfVolume returns the writes of one volume's life.
func stepsOfVolume(i int, write func(inventory.Seen)) []func() {
	node, name := fmt.Sprint("node-", i%manyNodes), fmt.Sprint("data-", i)
	c, p := newClaim(), newPod()
	c.Name, p.Name = name, name
	p.Spec.NodeName, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "", name
	v := newVolume(c)
	v.Name, v.Spec.CSI.VolumeHandle, v.Spec.ClaimRef.Name = "pvc-"+name, "h-"+name, name
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.Name},
		},
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: name},
		Type:           "Normal", Reason: "ExternalProvisioning", Message: "waiting for a volume",
	}
	put := func(o client.Object) { write(inventory.Seen{Object: o.DeepCopyObject().(client.Object)}) }
	return []func(){
		func() { put(c); c.UID = types.UID(fmt.Sprintf("%T/%s", c, name)); v.Spec.ClaimRef.UID = c.UID },
		func() { put(event); put(v) },
		func() {
			c.Spec.VolumeName, c.Status.Phase = v.Name, corev1.ClaimBound
			c.Annotations = map[string]string{names.AnnBindCompleted: "yes"}
			v.Status.Phase = corev1.VolumeBound
			put(v)
			put(c)
			put(p)
		},
		func() { p.Spec.NodeName = node; put(p); put(va) },
		func() { va.Status.Attached = true; put(va) },
		func() {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: names.ConditionVolumesPublished, Status: "True", LastTransitionTime: metav1.NewTime(start),
			}}
			put(p)
		},
	}
}

func lifeOf(tb testing.TB, h *life.History, i int) life.Life {
	tb.Helper()
	lives := h.Lives(explain.Ref{Kind: explain.Claim, Namespace: "shop", Name: fmt.Sprint("data-", i)})
	if len(lives) != 1 || len(lives[0].Phases) == 0 {
		tb.Fatalf("%d lives", len(lives))
	}
	return lives[0]
}

// BenchmarkLife is the life of one of 10,000 volumes in a loaded record: of one that waited for nothing, and of one
// whose pod was unschedulable for long, which needs all objects that a scheduler looks at.
func BenchmarkLife(b *testing.B) {
	r := largeRecord(b)
	for name, i := range map[string]int{"short": 4711, "unscheduled": 7} {
		b.Run(name, func(b *testing.B) {
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				h := r.History()
				runtime.GC() // of the history before
				b.StartTimer()
				before := processorTime(b)
				lifeOf(b, h, i)
				used += processorTime(b) - before
			}
			b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkLifeAfterChange is the first life on the pages of a running program after a claim was changed, of one of
// 10,000 volumes.
func BenchmarkLifeAfterChange(b *testing.B) {
	l := &Live{}
	l.Listed(nil, start)
	for _, c := range largeRecord(b).index.Changes() {
		seen := inventory.Seen{Object: c.Object.(client.Object), Initial: c.Existed, Deleted: c.Deleted}
		l.Object(seen, c.At)
	}
	end := start.Add(time.Hour)
	final, changes, used := l.Record(end).final(), 0, time.Duration(0)
	for b.Loop() {
		changes++
		changed := newClaim()
		changed.Name, changed.UID = "changing", "changing"
		changed.ResourceVersion = fmt.Sprint(1_000_000 + changes)
		before := processorTime(b)
		l.Object(inventory.Seen{Object: changed}, end.Add(time.Duration(changes)*time.Millisecond))
		lifeOf(b, l.Record(end).HistoryTo(final), 9_999)
		used += processorTime(b) - before
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
}

// processorTime is what the process has used: on a busy machine it tells more than the clock.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkDumpLife is the same from a dump, which has one version of each object.
func BenchmarkDumpLife(b *testing.B) {
	r := largeRecord(b)
	cluster := r.final()
	for b.Loop() {
		b.StopTimer()
		h := life.New(life.OfCluster(cluster))
		b.StartTimer()
		lifeOf(b, h, 4711)
	}
}

// BenchmarkHistory is what a loaded record needs once before the first life.
func BenchmarkHistory(b *testing.B) {
	r := largeRecord(b)
	for b.Loop() {
		r.History()
	}
}

// BenchmarkWrite is what the recorder does for each change in a burst of claims with pods: the content, its
// difference from the one before, and a line of a compressed file.
func BenchmarkWrite(b *testing.B) {
	var burst []inventory.Seen
	for i := range 200 {
		for _, step := range stepsOfVolume(i, func(seen inventory.Seen) {
			seen.Object.SetResourceVersion(fmt.Sprint(len(burst) + 1))
			seen.Object.SetManagedFields(benchFields(len(burst)))
			burst = append(burst, seen)
		}) {
			step()
		}
	}
	used := time.Duration(0)
	for b.Loop() {
		file, err := Create(filepath.Join(b.TempDir(), "r.jsonl.gz"), Limits{}, start)
		if err != nil {
			b.Fatal(err)
		}
		w := NewWriter(file, "bench", time.Now)
		before := processorTime(b)
		for _, seen := range burst {
			w.Object(seen)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		used += processorTime(b) - before
	}
	b.ReportMetric(float64(used.Microseconds())/float64(b.N*len(burst)), "cpu-us/line")
}

// benchFields are managed fields as the informers keep them.
func benchFields(n int) (all []metav1.ManagedFieldsEntry) {
	at := metav1.NewTime(start.Add(time.Duration(n) * time.Second))
	for i, manager := range []string{"kubectl", "kube-controller-manager", "purser"} {
		all = append(all, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"hash":"%x"}`, i)),
		})
	}
	return all
}
