package play

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/scenario"
)

// claim builds a claim:
//
//	class=NAME, class= (none), no class option (the default one), beta-class=NAME, volume=NAME, mode=Block, vac=NAME,
//	select=a=b, expr=JSON of matchExpressions, node=NODE (that the scheduler has selected), source=SNAPSHOT, owner=POD,
//	completed and by-controller (the annotations of a bound claim), phase=, capacity= and current-vac= (its status)
func (p *Player) claim(s scenario.Step) (*corev1.PersistentVolumeClaim, error) {
	q, modes, err := size(s)
	if err != nil {
		return nil, err
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: p.meta(s), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: modes,
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: q}},
	}}
	if class, ok := s.Option("class"); ok {
		c.Spec.StorageClassName = new(p.className(class))
	}
	if class, ok := s.Option("beta-class"); ok {
		c.Annotations[annotation("beta-class")] = p.className(class)
	}
	if volume, ok := s.Option("volume"); ok {
		c.Spec.VolumeName = p.shared(volume)
	}
	if mode, ok := s.Option("mode"); ok {
		c.Spec.VolumeMode = new(corev1.PersistentVolumeMode(mode))
	}
	if vac, ok := s.Option("vac"); ok {
		c.Spec.VolumeAttributesClassName = new(p.shared(vac))
	}
	if node, ok := s.Option("node"); ok {
		c.Annotations[annotation("node")] = node
	}
	if source, ok := s.Option("source"); ok {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{
			APIGroup: new("snapshot.storage.k8s.io"),
			Kind:     "VolumeSnapshot",
			Name:     source,
		}
	}
	if pod, ok := s.Option("owner"); ok {
		if c.OwnerReferences, err = p.owner(pod); err != nil {
			return nil, err
		}
	}
	c.Spec.Selector, err = selector(s)
	return c, err
}

func selector(s scenario.Step) (*metav1.LabelSelector, error) {
	if !s.Has("select") && !s.Has("expr") {
		return nil, nil //nolint:nilnil // no selector is not an error
	}
	selector := &metav1.LabelSelector{MatchLabels: pairs(value(s, "select", ""))}
	if expr, ok := s.Option("expr"); ok {
		if err := json.Unmarshal([]byte(expr), &selector.MatchExpressions); err != nil {
			return nil, fmt.Errorf("expr=%s: %w", expr, err)
		}
	}
	return selector, nil
}

// volume builds a volume:
//
//	class=NAME, policy=Retain (the default), Delete or Recycle, mode=Block, vac=NAME, affinity=NODE,
//	claim=NAME with uid=CLAIM (that claim's uid) or uid=~TEXT or without uid,
//	namespace= (of the claim, when it is another),
//	driver=NAME, fstype=TYPE, expand-secret=SECRET, source=nfs, hostpath, local or ebs instead of a CSI driver,
//	provisioned-by=DRIVER, by-controller, phase=
func (p *Player) volume(s scenario.Step) (*corev1.PersistentVolume, error) {
	q, modes, err := size(s)
	if err != nil {
		return nil, err
	}
	v := &corev1.PersistentVolume{ObjectMeta: p.meta(s), Spec: corev1.PersistentVolumeSpec{
		AccessModes: modes, Capacity: corev1.ResourceList{corev1.ResourceStorage: q},
		StorageClassName:              p.className(value(s, "class", "")),
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimPolicy(value(s, "policy", "Retain")),
		PersistentVolumeSource:        p.source(s), MountOptions: s.All("mountopt"),
	}}
	if driver, ok := s.Option("provisioned-by"); ok {
		v.Annotations[annotation("provisioned-by")] = driver
	}
	if mode, ok := s.Option("mode"); ok {
		v.Spec.VolumeMode = new(corev1.PersistentVolumeMode(mode))
	}
	if vac, ok := s.Option("vac"); ok {
		v.Spec.VolumeAttributesClassName = new(p.shared(vac))
	}
	if node, ok := s.Option("affinity"); ok {
		v.Spec.NodeAffinity = only(node)
	}
	if claim, ok := s.Option("claim"); ok {
		ref := &corev1.ObjectReference{
			Kind:       "PersistentVolumeClaim",
			APIVersion: "v1",
			Namespace:  value(s, "namespace", p.play.Name),
			Name:       claim,
		}
		if of, ok := s.Option("uid"); ok {
			if ref.UID, err = p.claimUID(of); err != nil {
				return nil, err
			}
		}
		v.Spec.ClaimRef = ref
	}
	return v, nil
}

func (p *Player) claimUID(of string) (types.UID, error) {
	if literal, ok := strings.CutPrefix(of, "~"); ok {
		return types.UID(literal), nil
	}
	uid, err := p.uid("pvc/" + of)
	return types.UID(uid), err
}

// source returns the volume source. Handles are unique, so that volumes differ.
func (p *Player) source(s scenario.Step) corev1.PersistentVolumeSource {
	switch value(s, "source", "csi") {
	case "nfs":
		return corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/"}}
	case "hostpath":
		return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + s.Name}}
	case "ebs":
		return corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1", FSType: "ext4"},
		}
	case "local":
		return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/nonexistent/" + s.Name}}
	}
	source := &corev1.CSIPersistentVolumeSource{
		Driver: value(s, "driver", DriverName), VolumeHandle: p.shared(s.Name),
		FSType: value(s, "fstype", ""),
	}
	if name, ok := s.Option("expand-secret"); ok {
		source.ControllerExpandSecretRef = &corev1.SecretReference{Namespace: p.play.Name, Name: name}
	}
	return corev1.PersistentVolumeSource{CSI: source}
}

func only(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
			Values: []string{node},
		}},
	}}}}
}
