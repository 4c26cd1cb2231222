package binder

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// podUse are the claims that a pod uses, and what is known of the pod.
type podUse struct {
	claims []types.NamespacedName
	binding.Consumer
}

// concerns reports whether two states of a pod give the same event. The scheduler's message changes
// often, so only its presence counts.
func (u podUse) concerns(o podUse) bool {
	return slices.Equal(u.claims, o.claims) && u.Node == o.Node && (u.Why == "") == (o.Why == "")
}

// podSeen handles a watch event about a pod; now is nil after a deletion. Only pods that use claims
// without a volume matter: binding waits for them, and the claim's event names them.
func (l *objectStore) podSeen(pod types.NamespacedName, now *corev1.Pod) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, after := l.uses[pod], l.useOf(now)
	l.unuse(pod, before)
	if len(after.claims) > 0 {
		l.uses[pod] = after
	}
	for _, claim := range after.claims {
		if l.pods[claim] == nil {
			l.pods[claim] = map[string]struct{}{}
		}
		l.pods[claim][pod.Name] = struct{}{}
	}
	if before.concerns(after) {
		return nil
	}
	var keys []binding.Key
	for _, claim := range append(slices.Clone(before.claims), after.claims...) {
		if have := l.claims[claim]; have != nil && have.Spec.VolumeName == "" {
			keys = append(keys, binding.Key{Claim: claim})
		}
	}
	return keys
}

// useOf is what a pod waits for that may yet run. Nearly all that have a node have their volumes:
// of those only the claims count that are without, or that are not known. The caller holds mu.
func (l *objectStore) useOf(pod *corev1.Pod) (use podUse) {
	if pod == nil {
		return use
	}
	consumer, consumes := binding.ConsumerOf(pod)
	if !consumes {
		return use
	}
	use.Consumer = consumer
	for _, name := range protection.ClaimNames(pod) {
		claim := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		if use.Node == "" || volumeNameOf(l.claims[claim]) == "" {
			use.claims = append(use.claims, claim)
		}
	}
	return use
}

// unuse forgets what a pod uses. The caller holds mu.
func (l *objectStore) unuse(pod types.NamespacedName, use podUse) {
	for _, claim := range use.claims {
		if delete(l.pods[claim], pod.Name); len(l.pods[claim]) == 0 {
			delete(l.pods, claim)
		}
	}
	delete(l.uses, pod)
}

// served forgets the pods that have a node and use a claim, which has its volume now. The caller
// holds mu.
func (l *objectStore) served(claim types.NamespacedName) {
	for name := range l.pods[claim] {
		pod := types.NamespacedName{Namespace: claim.Namespace, Name: name}
		use := l.uses[pod]
		if use.Node == "" {
			continue
		}
		use.claims = slices.DeleteFunc(
			slices.Clone(use.claims), func(c types.NamespacedName) bool { return c == claim },
		)
		l.unuse(pod, podUse{claims: []types.NamespacedName{claim}})
		if len(use.claims) > 0 {
			l.uses[pod] = use
		}
	}
}

// consumers are the pods that use a claim. The caller holds mu.
func (l *objectStore) consumers(claim types.NamespacedName) (all []binding.Consumer) {
	for name := range l.pods[claim] {
		all = append(all, l.uses[types.NamespacedName{Namespace: claim.Namespace, Name: name}].Consumer)
	}
	return all
}
