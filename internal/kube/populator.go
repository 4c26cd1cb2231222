package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PopulatorVersion is that of VolumePopulators (DV-5).
var PopulatorVersion = schema.GroupVersion{Group: "populator.storage.k8s.io", Version: "v1beta1"}

// PopulatorKind is the kind VolumePopulator.
var PopulatorKind = PopulatorVersion.WithKind("VolumePopulator")

// VolumePopulator registers a kind of sources. It is cluster-scoped, and has no spec and no status.
type VolumePopulator struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// SourceKind is the kind that a claim's spec.dataSourceRef may name.
	SourceKind metav1.GroupKind `json:"sourceKind"`
}

// VolumePopulatorList is a list of VolumePopulators.
type VolumePopulatorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []VolumePopulator `json:"items"`
}

// addPopulators adds the types to a scheme.
func addPopulators(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(PopulatorVersion, &VolumePopulator{}, &VolumePopulatorList{})
	metav1.AddToGroupVersion(scheme, PopulatorVersion)
}

// Kind returns the source kind.
func (p *VolumePopulator) Kind() schema.GroupKind {
	return schema.GroupKind{Group: p.SourceKind.Group, Kind: p.SourceKind.Kind}
}

// DeepCopyObject implements runtime.Object.
func (p *VolumePopulator) DeepCopyObject() runtime.Object {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *VolumePopulatorList) DeepCopyObject() runtime.Object {
	c := *l
	l.DeepCopyInto(&c.ListMeta)
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*VolumePopulator)) //nolint:forcetypeassert // above
	}
	return &c
}
