package binder

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/binding"
)

// classSeen takes in what the watch shows of a class; now is nil when it is gone. Its claims are concerned, and those without a class
// when another one is the default.
func (l *ledger) classSeen(name string, now *storagev1.StorageClass) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.defaultClass()
	if now == nil {
		delete(l.classes, name)
	} else {
		l.classes[name] = now
	}
	keys := keysOf(l.classed[name])
	if after := l.defaultClass(); after != nil && (before == nil || before.Name != after.Name) {
		keys = append(keys, keysOf(l.classed[noClass])...)
	}
	return keys
}

// defaultClass is looked for among all, which are few. The caller holds mu.
func (l *ledger) defaultClass() *storagev1.StorageClass {
	return binding.DefaultClass(slices.Collect(maps.Values(l.classes)))
}

// ofDriver are the claims without a volume whose class is served by the driver.
func (l *ledger) ofDriver(driver string) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []binding.Key
	for name, class := range l.classes {
		if binding.Driver(class.Provisioner) == driver {
			keys = append(keys, keysOf(l.classed[name])...)
		}
	}
	return keys
}

func keysOf(claims map[types.NamespacedName]struct{}) []binding.Key {
	keys := make([]binding.Key, 0, len(claims))
	for claim := range claims {
		keys = append(keys, binding.Key{Claim: claim})
	}
	return keys
}

// podSeen takes in what the watch shows of a pod; now is nil when it is gone. Of interest are only pods without a node: binding waits
// for them, and people want to know for which.
func (l *ledger) podSeen(pod types.NamespacedName, now *corev1.Pod) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []binding.Key
	before, after := l.uses[pod], claimsAwaiting(now)
	if slices.Equal(before, after) {
		return nil
	}
	for _, claim := range before {
		if delete(l.pods[claim], pod.Name); len(l.pods[claim]) == 0 {
			delete(l.pods, claim)
		}
		keys = append(keys, l.awaitsPod(claim)...)
	}
	delete(l.uses, pod)
	for _, claim := range after {
		if l.pods[claim] == nil {
			l.pods[claim] = map[string]struct{}{}
		}
		l.pods[claim][pod.Name] = struct{}{}
		keys = append(keys, l.awaitsPod(claim)...)
	}
	if len(after) > 0 {
		l.uses[pod] = after
	}
	return keys
}

// podUse are the claims that a pod uses.
type podUse []types.NamespacedName

func (l *ledger) awaitsPod(claim types.NamespacedName) []binding.Key {
	if have := l.claims[claim]; have == nil || have.Spec.VolumeName != "" {
		return nil
	}
	return []binding.Key{{Claim: claim}}
}

// claimsAwaiting are the claims of a pod that has no node and may get one.
func claimsAwaiting(pod *corev1.Pod) podUse {
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var claims podUse
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			claims = append(claims, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name})
		}
	}
	return claims
}
