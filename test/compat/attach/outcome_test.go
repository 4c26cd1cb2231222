package attach

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

func (p *play) events(pod string) (all []string, err error) {
	var list corev1.EventList
	if err := p.api.List(p.ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.Name == pod && !strings.HasPrefix(e.Reason, "Scheduled") {
			all = append(all, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// settle returns the outcome when it has not changed for so long.
func (p *play) settle(unchanged time.Duration) (last []string, err error) {
	var since time.Time
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		now, err := p.outcome()
		if err != nil {
			return nil, err
		}
		if !slices.Equal(now, last) || since.IsZero() {
			last, since = now, time.Now()
		}
		if time.Since(since) > unchanged {
			return last, nil
		}
	}
	return nil, fmt.Errorf("the outcome still changes after %s: %s", patience, strings.Join(last, "; "))
}

// outcome returns the final state of all objects, without the prefix.
func (p *play) outcome() (lines []string, err error) {
	say := func(format string, args ...any) {
		lines = append(lines, strings.ReplaceAll(fmt.Sprintf(format, args...), p.prefix, ""))
	}
	for _, volume := range p.vols {
		pv := &corev1.PersistentVolume{}
		switch err := p.api.Get(p.ctx, client.ObjectKey{Name: volume}, pv); {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err != nil:
			say("pv %s is gone", volume)
		default:
			slices.Sort(pv.Finalizers)
			say("pv %s finalizers %v deleting=%t", volume, pv.Finalizers, pv.DeletionTimestamp != nil)
		}
		say("pv %s is published to %v", volume, p.driver.published(volume))
		for i, call := range p.driver.called(volume) {
			say("pv %s call %d %s", volume, i, call)
		}
	}
	for _, node := range p.nodes {
		object := &corev1.Node{}
		if err := p.api.Get(p.ctx, client.ObjectKey{Name: node}, object); err == nil {
			say("node %s lists %v", node, object.Status.VolumesAttached)
		}
	}
	for _, pod := range p.pods {
		events, err := p.events(pod)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			say("pod %s event %s", pod, e)
		}
	}
	var list storagev1.VolumeAttachmentList
	if err := p.api.List(p.ctx, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if va := &list.Items[i]; strings.HasPrefix(va.Spec.NodeName, p.prefix) {
			say("attachment %s@%s attached=%t metadata=%v node=%s finalizers=%v deleting=%t attachError=%s detachError=%s",
				sourceOf(va), va.Spec.NodeName, va.Status.Attached, va.Status.AttachmentMetadata,
				va.Annotations[names.AnnAttachedNodeID], va.Finalizers, va.DeletionTimestamp != nil,
				textOf(va.Status.AttachError), textOf(va.Status.DetachError))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// sourceOf returns the volume of a VolumeAttachment, or a description of its inline source.
func sourceOf(va *storagev1.VolumeAttachment) string {
	if name := va.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}
	spec := va.Spec.Source.InlineVolumeSpec
	return fmt.Sprintf("inline %s %s %v", spec.CSI.Driver, spec.CSI.VolumeHandle, spec.AccessModes)
}

func textOf(e *storagev1.VolumeError) string {
	if e == nil {
		return "none"
	}
	return fmt.Sprintf("%q code=%v", e.Message, e.ErrorCode != nil)
}
