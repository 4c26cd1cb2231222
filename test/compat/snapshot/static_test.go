package snapshot

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// staticScenarios are about pre-provisioned snapshots (SN-Q5, SN-A9).
func staticScenarios() []scenario {
	return []scenario{
		{"static", func(s *scene) {
			s.simple()
			s.content("old", "vs", mainDriver, remove)
			s.ready(s.adopt("vs", "delete", "old"))
		}},
		{"static-without-class", func(s *scene) {
			s.content("old", "vs", mainDriver, retain)
			s.ready(s.adopt("vs", "", "old"))
		}},
		{"static-removed", func(s *scene) {
			s.simple()
			s.content("old", "vs", mainDriver, remove)
			vs := s.adopt("vs", "delete", "old")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
		}},
		{"static-retained", func(s *scene) {
			s.content("old", "vs", mainDriver, retain)
			vs := s.adopt("vs", "", "old")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
		}},
		{"static-listed", func(s *scene) {
			s.lister.exists(s.own("old"), "v")
			s.content("old", "vs", listDriver, remove)
			s.ready(s.adopt("vs", "", "old"))
		}},
		{"static-listed-and-removed", func(s *scene) {
			s.lister.exists(s.own("old"), "v")
			s.content("old", "vs", listDriver, remove)
			vs := s.adopt("vs", "", "old")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
		}},
		{"static-not-listed", func(s *scene) {
			s.content("old", "vs", listDriver, retain)
			s.failed(s.adopt("vs", "", "old"))
		}},
		{"static-content-absent", func(s *scene) {
			s.failed(s.adopt("vs", "", "absent"))
		}},
		{"static-content-comes-later", func(s *scene) {
			vs := s.adopt("vs", "", "old")
			s.failed(vs)
			s.content("old", "vs", mainDriver, retain)
			s.ready(vs)
		}},
		{"static-content-of-another", func(s *scene) {
			s.content("old", "other", mainDriver, retain)
			s.failed(s.adopt("vs", "", "old"))
		}},
		{"static-content-of-another-uid", func(s *scene) {
			s.content("old", "vs", mainDriver, retain, func(c *snapshotv1.VolumeSnapshotContent) { c.Spec.VolumeSnapshotRef.UID = "another" })
			s.failed(s.adopt("vs", "", "old"))
		}},
		{"static-content-with-a-volume", func(s *scene) {
			s.content("old", "vs", mainDriver, retain, func(c *snapshotv1.VolumeSnapshotContent) {
				c.Spec.Source = snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new(s.own("v"))}
			})
			s.failed(s.adopt("vs", "", "old"))
		}},
		{"static-unbound-content-removed", func(s *scene) { // SN-E1
			s.simple()
			s.content("old", "vs", mainDriver, remove)
			s.content("newer", "vs2", mainDriver, retain)
			s.ready(s.adopt("vs2", "", "newer")) // by then the controller has had the old one
			content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: s.own("old")}}
			s.delete(content)
			s.gone(content)
		}},
	}
}

// volumeFor creates the volume of a claim, of the driver main.
func (s *scene) volumeFor(claim *corev1.PersistentVolumeClaim) {
	s.volume(claim, corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: mainDriver, VolumeHandle: s.own(claim.Name)},
	})
}

// plainPair creates a claim and a volume without a CSI driver.
func (s *scene) plainPair(name string) {
	claim := s.pending(name, nil)
	s.volume(claim, corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/" + s.name}})
	s.bind(name)
}

func (s *scene) volume(claim *corev1.PersistentVolumeClaim, source corev1.PersistentVolumeSource) {
	s.do(func(ctx context.Context) error {
		return s.Create(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.own(claim.Name)}, Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        source,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.name, Name: claim.Name, UID: claim.UID},
		}})
	})
}
