package ui

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/names"
	keys "github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// place is where an object belongs; each part may be empty.
type place struct{ class, driver, node string }

// name is the key of an object of one kind.
type name struct{ namespace, name string }

// places finds the class, the driver and the node of objects.
type places struct {
	claims      map[name]*corev1.PersistentVolumeClaim
	pods        map[name]*corev1.Pod
	snapshots   map[name]*snapshotv1.VolumeSnapshot
	volumes     map[string]*corev1.PersistentVolume
	attachments map[string]*storagev1.VolumeAttachment
	classes     map[string]*storagev1.StorageClass
	snapClasses map[string]string // drivers
}

func newPlaces(c *explain.Cluster) *places {
	p := &places{
		claims: map[name]*corev1.PersistentVolumeClaim{}, pods: map[name]*corev1.Pod{},
		snapshots: map[name]*snapshotv1.VolumeSnapshot{}, volumes: map[string]*corev1.PersistentVolume{},
		attachments: map[string]*storagev1.VolumeAttachment{}, classes: map[string]*storagev1.StorageClass{},
		snapClasses: map[string]string{},
	}
	for _, o := range c.Claims {
		p.claims[name{o.Namespace, o.Name}] = o
	}
	for _, o := range c.Pods {
		p.pods[name{o.Namespace, o.Name}] = o
	}
	for _, o := range c.Snapshots {
		p.snapshots[name{o.Namespace, o.Name}] = o
	}
	for _, o := range c.Volumes {
		p.volumes[o.Name] = o
	}
	for _, o := range c.Attachments {
		p.attachments[o.Name] = o
	}
	for _, o := range c.Classes {
		p.classes[o.Name] = o
	}
	for _, o := range c.SnapshotClasses {
		p.snapClasses[o.Name] = o.Driver
	}
	return p
}

// of returns the place of an object.
func (p *places) of(ref explain.Ref) place {
	key := name{ref.Namespace, ref.Name}
	switch ref.Kind {
	case explain.Claim:
		return p.claim(p.claims[key])
	case explain.Volume:
		return p.volume(p.volumes[ref.Name])
	case explain.Pod:
		return p.pod(p.pods[key])
	case explain.Attachment:
		if va := p.attachments[ref.Name]; va != nil {
			at := place{driver: va.Spec.Attacher}
			if of := va.Spec.Source.PersistentVolumeName; of != nil {
				at = p.volume(p.volumes[*of])
			}
			at.node = va.Spec.NodeName
			return at
		}
	case explain.Snapshot:
		if s := p.snapshots[key]; s != nil && s.Spec.VolumeSnapshotClassName != nil {
			class := *s.Spec.VolumeSnapshotClassName
			return place{class: class, driver: p.snapClasses[class]}
		}
	case explain.Class:
		return place{class: ref.Name, driver: p.driverOf(ref.Name)}
	case explain.CSIDriver:
		return place{driver: ref.Name}
	case explain.Node, explain.CSINode:
		return place{node: ref.Name}
	default:
	}
	return place{}
}

func (p *places) driverOf(class string) string {
	if c := p.classes[class]; c != nil {
		return c.Provisioner
	}
	return ""
}

func (p *places) claim(c *corev1.PersistentVolumeClaim) place {
	if c == nil {
		return place{}
	}
	at := place{class: keys.ClaimClass(c), node: c.Annotations[names.AnnSelectedNode]}
	at.driver = p.driverOf(at.class)
	if pv := p.volumes[c.Spec.VolumeName]; pv != nil && pv.Spec.CSI != nil {
		at.driver = pv.Spec.CSI.Driver
	}
	return at
}

func (p *places) volume(pv *corev1.PersistentVolume) place {
	if pv == nil {
		return place{}
	}
	at := place{class: keys.VolumeClass(pv)}
	at.driver = p.driverOf(at.class)
	if pv.Spec.CSI != nil {
		at.driver = pv.Spec.CSI.Driver
	}
	return at
}

// pod is at its node, with the class and the driver of its first claim.
func (p *places) pod(pod *corev1.Pod) (at place) {
	if pod == nil {
		return place{}
	}
	for _, claim := range protection.ClaimNames(pod) {
		if c := p.claims[name{pod.Namespace, claim}]; c != nil {
			at = p.claim(c)
			break
		}
	}
	at.node = pod.Spec.NodeName
	return at
}
