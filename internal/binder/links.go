package binder

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims and volumes that name each other, as nearly all do, are found by each other's words. Only
// who is not named back is listed: a volume by the claim that it names, a claim by the volume that
// it names. The methods of this file are called with mu held.

// putVolume takes the place of what was known of a volume; now is nil when it is gone.
func (l *objectStore) putVolume(name string, now *corev1.PersistentVolume) {
	was, named := refOf(l.volumes[name])
	is, names := refOf(now)
	same := named == names && was == is
	switch {
	case same || !named:
	case l.paired(was, name):
		l.names.add(name, was)
	default:
		l.refs.drop(was, name)
	}
	if now == nil {
		delete(l.volumes, name)
	} else {
		l.volumes[name] = now
	}
	switch {
	case same || !names:
	case l.paired(is, name):
		l.names.drop(name, is)
	default:
		l.refs.add(is, name)
	}
}

// putClaim takes the place of what was known of a claim; now is nil when it is gone.
func (l *objectStore) putClaim(key types.NamespacedName, now *corev1.PersistentVolumeClaim) {
	was, is := volumeNameOf(l.claims[key]), volumeNameOf(now)
	switch {
	case was == is || was == "":
	case l.paired(key, was):
		l.refs.add(key, was)
	default:
		l.names.drop(was, key)
	}
	if now == nil {
		delete(l.claims, key)
	} else {
		l.claims[key] = now
	}
	switch {
	case was == is || is == "":
	case l.paired(key, is):
		l.refs.drop(key, is)
	default:
		l.names.add(is, key)
	}
}

// paired reports whether the two name each other.
func (l *objectStore) paired(claim types.NamespacedName, volume string) bool {
	ref, ok := refOf(l.volumes[volume])
	return ok && ref == claim && volumeNameOf(l.claims[claim]) == volume
}

// referring are the volumes that name a claim.
func (l *objectStore) referring(claim types.NamespacedName) []string {
	if own := volumeNameOf(l.claims[claim]); own != "" && l.paired(claim, own) {
		return append([]string{own}, l.refs[claim]...)
	}
	return l.refs[claim]
}

// refOf is the claim that a volume names.
func refOf(pv *corev1.PersistentVolume) (key types.NamespacedName, ok bool) {
	if pv == nil || pv.Spec.ClaimRef == nil {
		return key, false
	}
	return refKey(pv), true
}

func refKey(pv *corev1.PersistentVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}

func volumeNameOf(claim *corev1.PersistentVolumeClaim) string {
	if claim == nil {
		return ""
	}
	return claim.Spec.VolumeName
}

// multimap has few values for each key.
type multimap[K, V comparable] map[K][]V

func (m multimap[K, V]) add(key K, value V) { m[key] = append(m[key], value) }

func (m multimap[K, V]) drop(key K, value V) {
	have := m[key]
	if len(have) == 1 && have[0] == value {
		delete(m, key)
		return
	}
	if i := slices.Index(have, value); i >= 0 {
		m[key] = slices.Delete(have, i, i+1)
	}
}
