package binder

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

const (
	// IndexClaimRef finds the PersistentVolumes whose spec.claimRef names a claim.
	IndexClaimRef = "claimRef"
	// IndexStatic finds the PersistentVolumes that are there for any claim of a class.
	IndexStatic = "staticClass"
	// IndexConsumed finds the pods that may yet run by the claims that they name.
	IndexConsumed = "consumedClaim"
)

// Indexes are the indexes of [Gather].
func Indexes() []kube.Index {
	return []kube.Index{
		kube.IndexBy(IndexClaimRef, func(pv *corev1.PersistentVolume) []string {
			if pv.Spec.ClaimRef == nil {
				return nil
			}
			return []string{objects.ClaimOf(pv).String()}
		}),
		kube.IndexBy(IndexStatic, func(pv *corev1.PersistentVolume) []string {
			if !binding.Matchable(pv) {
				return nil
			}
			return []string{objects.VolumeClass(pv)}
		}),
		kube.IndexBy(IndexConsumed, func(pod *corev1.Pod) []string {
			if _, consumes := binding.ConsumerOf(pod); !consumes {
				return nil
			}
			return protection.ClaimNames(pod)
		}),
	}
}

// Objects are the API objects that decide about a claim and its volumes. An object that does
// not exist is nil. The binder's objectStore has them, and [Gather] reads them.
//
//nolint:interfacebloat // one method for each kind of object that binding depends on
type Objects interface {
	Claim(key types.NamespacedName) *corev1.PersistentVolumeClaim
	Volume(name string) *corev1.PersistentVolume
	// Naming are the volumes whose spec.claimRef has the name of the claim.
	Naming(claim types.NamespacedName) []*corev1.PersistentVolume
	Class(name string) *storagev1.StorageClass
	DefaultClass() *storagev1.StorageClass
	// Consumers are the pods that use the claim and may yet run.
	Consumers(claim types.NamespacedName) []binding.Consumer
	// Static is the best of the volumes that are there for any claim, or held for this one.
	Static(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume
}

// Memory is the state of this process about one key, beyond the API objects.
type Memory struct {
	ClaimAsked bool // the claim comes from a live read, absence included
	// Asked reports the same of a volume; nil for none.
	Asked func(volume string) bool
	// Gone reports whether no claim of this name has the uid any more; nil for never.
	Gone func(claim types.NamespacedName, uid types.UID) bool
}

// GatherFrom gathers the inputs of the decision about a claim with the volumes that name it, or about
// a volume that names none.
func GatherFrom(from Objects, key binding.Key, m Memory) binding.Snapshot {
	s := binding.Snapshot{Key: key, ClaimAsked: m.ClaimAsked}
	if key.Volume != "" {
		if pv := from.Volume(key.Volume); pv != nil && pv.Spec.ClaimRef == nil {
			s.Refs = []*corev1.PersistentVolume{pv}
		}
		return s
	}
	s.Claim, s.Refs = from.Claim(key.Claim), from.Naming(key.Claim)
	s.Gone = map[types.UID]struct{}{}
	for _, pv := range s.Refs {
		if uid := pv.Spec.ClaimRef.UID; uid != "" && m.Gone != nil && m.Gone(key.Claim, uid) {
			s.Gone[uid] = struct{}{}
		}
	}
	if s.Claim == nil {
		return s
	}
	if name := s.Claim.Spec.VolumeName; name != "" {
		s.Named, s.VolumesAsked = from.Volume(name), m.Asked != nil && m.Asked(name)
	}
	if name := objects.ClaimClass(s.Claim); name != "" {
		s.Class = from.Class(name)
	}
	if binding.AsksNoClass(s.Claim) {
		s.Default = from.DefaultClass()
	}
	if binding.DelaysBinding(s.Class) {
		s.Pods = from.Consumers(key.Claim)
	}
	if binding.LooksForStatic(s) {
		s.Offer = from.Static(s.Claim)
	}
	return s
}

// Gather is [GatherFrom] over a reader with [Indexes].
func Gather(
	ctx context.Context, from client.Reader, key binding.Key, m Memory,
) (binding.Snapshot, error) {
	objects := &bindingReader{ctx: ctx, from: from}
	s := GatherFrom(objects, key, m)
	return s, objects.err
}

// bindingReader implements [Objects]. It keeps the first error.
type bindingReader struct {
	ctx  context.Context //nolint:containedctx // it lives for one gather
	from client.Reader
	err  error
}

func (r *bindingReader) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func read[T client.Object](r *bindingReader, key types.NamespacedName, into T) T {
	found, err := kube.Get(r.ctx, r.from, key, into)
	r.note(err)
	return found
}

func (r *bindingReader) list(into client.ObjectList, options ...client.ListOption) {
	if err := r.from.List(r.ctx, into, options...); err != nil {
		r.note(fmt.Errorf("read what decides about a binding: %w", err))
	}
}

func (r *bindingReader) Claim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	return read(r, key, &corev1.PersistentVolumeClaim{})
}

func (r *bindingReader) Volume(name string) *corev1.PersistentVolume {
	return read(r, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
}

func (r *bindingReader) Class(name string) *storagev1.StorageClass {
	return read(r, types.NamespacedName{Name: name}, &storagev1.StorageClass{})
}

func (r *bindingReader) Naming(claim types.NamespacedName) (all []*corev1.PersistentVolume) {
	var list corev1.PersistentVolumeList
	r.list(&list, client.MatchingFields{IndexClaimRef: claim.String()})
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (r *bindingReader) DefaultClass() *storagev1.StorageClass {
	var list storagev1.StorageClassList
	r.list(&list)
	all := make([]*storagev1.StorageClass, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return binding.DefaultClass(all)
}

func (r *bindingReader) Consumers(claim types.NamespacedName) (all []binding.Consumer) {
	var list corev1.PodList
	r.list(&list, client.InNamespace(claim.Namespace), client.MatchingFields{IndexConsumed: claim.Name})
	for i := range list.Items {
		if consumer, consumes := binding.ConsumerOf(&list.Items[i]); consumes {
			all = append(all, consumer)
		}
	}
	return all
}

func (r *bindingReader) Static(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	var list corev1.PersistentVolumeList
	r.list(&list, client.MatchingFields{IndexStatic: objects.ClaimClass(claim)})
	index, byName := binding.NewIndex(), map[string]*corev1.PersistentVolume{}
	for i := range list.Items {
		index.Offer(&list.Items[i])
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName[index.BestVolume(claim)]
}
