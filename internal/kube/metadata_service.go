package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MetadataServiceVersion is that of SnapshotMetadataServices (CB-17).
var MetadataServiceVersion = schema.GroupVersion{Group: "cbt.storage.k8s.io", Version: "v1beta1"}

// SnapshotMetadataService says where the service of snapshot metadata of a driver is, and which
// audience the tokens of its clients need. It is cluster-scoped and has the name of the driver.
type SnapshotMetadataService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec SnapshotMetadataServiceSpec `json:"spec"`
}

// SnapshotMetadataServiceSpec is the specification of a SnapshotMetadataService.
type SnapshotMetadataServiceSpec struct {
	Audience string `json:"audience"`
	Address  string `json:"address"` // host and port
	CACert   []byte `json:"caCert"`
}

// SnapshotMetadataServiceList is a list of SnapshotMetadataServices.
type SnapshotMetadataServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []SnapshotMetadataService `json:"items"`
}

// addMetadataServices adds the types to a scheme.
func addMetadataServices(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(MetadataServiceVersion, &SnapshotMetadataService{}, &SnapshotMetadataServiceList{})
	metav1.AddToGroupVersion(scheme, MetadataServiceVersion)
}

// DeepCopyObject implements runtime.Object.
func (s *SnapshotMetadataService) DeepCopyObject() runtime.Object { return s.copy() }

func (s *SnapshotMetadataService) copy() *SnapshotMetadataService {
	c := *s
	s.DeepCopyInto(&c.ObjectMeta)
	c.Spec.CACert = slices.Clone(s.Spec.CACert)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *SnapshotMetadataServiceList) DeepCopyObject() runtime.Object {
	c := *l
	l.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].copy())
	}
	return &c
}
