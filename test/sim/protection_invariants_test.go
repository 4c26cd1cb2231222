package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/purser-csi/purser/internal/names"
	rules "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// early finds claims that lost their finalizer while a pod with a node used them (I10).
func (w *protectionWorld) early() (wrong []string) {
	before := map[types.UID]*corev1.PersistentVolumeClaim{}
	for _, e := range w.server.History(&corev1.PersistentVolumeClaim{}, 0) {
		is, ok := e.Object.(*corev1.PersistentVolumeClaim)
		if !ok {
			continue
		}
		was := before[is.UID]
		before[is.UID] = is
		if was == nil || was.DeletionTimestamp == nil || !holds(was) || e.Type != watch.Deleted && holds(is) {
			continue
		}
		for _, pod := range w.podsAt(e.At) {
			if rules.Uses(pod, was) {
				wrong = append(wrong, fmt.Sprintf("claim %s went at %d while pod %s used it", was.Name, e.At, pod.Name))
			}
		}
	}
	return wrong
}

func holds(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Finalizers, names.FinalizerPVCProtection)
}

// podsAt are the pods as they were at a resource version.
func (w *protectionWorld) podsAt(version int64) []*corev1.Pod {
	at := map[string]*corev1.Pod{}
	for _, e := range w.server.History(&corev1.Pod{}, 0) {
		if e.At > version {
			break
		}
		pod, ok := e.Object.(*corev1.Pod)
		if ok {
			at[pod.Name] = pod
		}
		if e.Type == watch.Deleted {
			delete(at, pod.Name)
		}
	}
	var pods []*corev1.Pod
	for _, pod := range at {
		pods = append(pods, pod)
	}
	return pods
}

// end finds what is not as it should be when nothing happens any more.
func (w *protectionWorld) end() (wrong []string) {
	pods := apiserver.Objects(w.server, &corev1.Pod{})
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, c := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		claims[c.Name] = c
		used := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return rules.Uses(p, c) })
		switch {
		case c.DeletionTimestamp == nil && !holds(c):
			wrong = append(wrong, "claim "+c.Name+" is not protected")
		case c.DeletionTimestamp != nil && !used:
			wrong = append(wrong, "claim "+c.Name+" is stuck")
		}
	}
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending && p.Spec.Volumes[0].Ephemeral != nil && claims[p.Name+"-data"] == nil {
			wrong = append(wrong, "pod "+p.Name+" has no claim")
		}
	}
	return wrong
}
