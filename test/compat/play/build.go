package play

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/test/compat/scenario"
)

// DriverName is the external driver of volumes and classes that name no other.
const DriverName = "csi.example.com"

// Annotations that scenarios abbreviate.
var annotations = map[string]string{
	"by-controller":    "pv.kubernetes.io/bound-by-controller",
	"completed":        "pv.kubernetes.io/bind-completed",
	"provisioned-by":   "pv.kubernetes.io/provisioned-by",
	"migrated-to":      "pv.kubernetes.io/migrated-to",
	"provisioner":      "volume.kubernetes.io/storage-provisioner",
	"beta-provisioner": "volume.beta.kubernetes.io/storage-provisioner",
	"node":             "volume.kubernetes.io/selected-node",
	"beta-class":       "volume.beta.kubernetes.io/storage-class",
	"default":          "storageclass.kubernetes.io/is-default-class",
	"beta-default":     "storageclass.beta.kubernetes.io/is-default-class",
	"resizer":          "volume.kubernetes.io/storage-resizer",
	"not-on-node":      "volume.kubernetes.io/node-expansion-not-required",
	"before-resize":    "volume.alpha.kubernetes.io/pre-resize-capacity",
	"modify-secret":    "volume.kubernetes.io/controller-modify-secret-name",
	"modify-secret-ns": "volume.kubernetes.io/controller-modify-secret-namespace",
}

// annotation returns the full key of an abbreviation.
func annotation(short string) string {
	if key, ok := annotations[short]; ok {
		return key
	}
	return short
}

// build returns the object that a step creates, and a patch of its status if the step has one.
func (p *Player) build(s scenario.Step) (object *unstructured.Unstructured, status string, err error) {
	var typed runtime.Object
	switch s.Kind {
	case scenario.Volume:
		typed, err = p.volume(s)
	case scenario.Claim:
		typed, err = p.claim(s)
	case scenario.Pod:
		typed, err = p.pod(s)
	case scenario.Class:
		typed = p.class(s)
	case scenario.Attribute:
		typed = &storagev1.VolumeAttributesClass{
			ObjectMeta: p.meta(s), DriverName: value(s, "driver", DriverName), Parameters: map[string]string{"name": s.Name},
		}
	case scenario.Secret:
		typed = &corev1.Secret{ObjectMeta: p.meta(s), StringData: map[string]string{"key": "of " + s.Name}}
	}
	if err != nil {
		return nil, "", err
	}
	k := kindOf(s)
	typed.GetObjectKind().SetGroupVersionKind(k.Version)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, "", err
	}
	delete(content, "status")
	if status, err = initialStatus(s, typed, p.shared); err != nil {
		return nil, "", err
	}
	return &unstructured.Unstructured{Object: content}, status, nil
}

func value(s scenario.Step, key, otherwise string) string {
	if v, ok := s.Option(key); ok {
		return v
	}
	return otherwise
}

// meta is the metadata that the options ask for.
func (p *Player) meta(s scenario.Step) metav1.ObjectMeta {
	k := kindOf(s)
	_, name := p.place(k, s.Name)
	m := metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{},
		Labels:      pairs(value(s, "labels", "")),
		Finalizers:  s.All("finalizer"),
	}
	for _, a := range s.All("ann") {
		key, v, _ := strings.Cut(a, "=")
		m.Annotations[annotation(key)] = v
	}
	for _, flag := range []string{"by-controller", "completed"} {
		if s.Has(flag) {
			m.Annotations[annotation(flag)] = "yes"
		}
	}
	for _, flag := range []string{"default", "beta-default"} {
		if s.Has(flag) {
			m.Annotations[annotation(flag)] = "true"
		}
	}
	return m
}

// pairs reads a=b,c=d.
func pairs(text string) map[string]string {
	if text == "" {
		return nil
	}
	all := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(pair, "=")
		all[k] = v
	}
	return all
}

// className returns the real name of a class; one that begins with ~ is literal.
func (p *Player) className(name string) string {
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "~"):
		return name[1:]
	}
	return p.shared(name)
}

var modes = map[string]corev1.PersistentVolumeAccessMode{
	"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
}

func accessModes(text string) (all []corev1.PersistentVolumeAccessMode, err error) {
	for short := range strings.SplitSeq(text, ",") {
		mode, ok := modes[short]
		if !ok {
			return nil, fmt.Errorf("%q is no access mode: use RWO, ROX, RWX or RWOP, with commas between", short)
		}
		all = append(all, mode)
	}
	return all, nil
}

// size reads SIZE and MODES, the two words after the name of a claim or volume.
func size(s scenario.Step) (q resource.Quantity, all []corev1.PersistentVolumeAccessMode, err error) {
	if q, err = resource.ParseQuantity(s.Words[0]); err != nil {
		return q, nil, fmt.Errorf("size %q: %w", s.Words[0], err)
	}
	all, err = accessModes(s.Words[1])
	return q, all, err
}

func (p *Player) class(s scenario.Step) *storagev1.StorageClass {
	c := &storagev1.StorageClass{
		ObjectMeta: p.meta(
			s,
		), Provisioner: value(s, "provisioner", "kubernetes.io/no-provisioner"), MountOptions: s.All("mountopt"),
	}
	if s.Has("wffc") {
		c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if policy, ok := s.Option("reclaim"); ok {
		c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy(policy))
	}
	if s.Has("expand") {
		c.AllowVolumeExpansion = new(true)
	}
	return c
}

// pod builds a pod, which no kubelet runs. With a node it is scheduled.
func (p *Player) pod(s scenario.Step) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: p.meta(s), Spec: corev1.PodSpec{
		NodeName: value(s, "node", ""), AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}},
	}}
	if claims := value(s, "claims", ""); claims != "" {
		for i, claim := range strings.Split(claims, ",") {
			pod.Spec.Volumes = append(
				pod.Spec.Volumes,
				corev1.Volume{Name: fmt.Sprintf("v%d", i), VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
				}},
			)
		}
	}
	for _, e := range s.All("ephemeral") {
		volume, err := p.ephemeral(e)
		if err != nil {
			return nil, err
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	}
	return pod, nil
}

// ephemeral reads NAME:SIZE:CLASS.
func (p *Player) ephemeral(text string) (corev1.Volume, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return corev1.Volume{}, fmt.Errorf("ephemeral=%s: say NAME:SIZE:CLASS", text)
	}
	q, err := resource.ParseQuantity(parts[1])
	if err != nil {
		return corev1.Volume{}, fmt.Errorf("ephemeral=%s: %w", text, err)
	}
	return corev1.Volume{Name: parts[0], VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{
				Labels:      map[string]string{"of": "template"},
				Annotations: map[string]string{"from": "template"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: new(p.className(parts[2])),
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: q}},
			},
		},
	}}}, nil
}

// initialStatus is the patch for phase= and what goes with it.
func initialStatus(s scenario.Step, typed runtime.Object, shared func(string) string) (string, error) {
	phase, given := s.Option("phase")
	if !given {
		return "", nil
	}
	status := map[string]any{"phase": phase}
	if claim, ok := typed.(*corev1.PersistentVolumeClaim); ok && phase == string(corev1.ClaimBound) {
		status["accessModes"] = claim.Spec.AccessModes
		status["capacity"] = map[string]any{"storage": value(s, "capacity", s.Words[0])}
		if current, ok := s.Option("current-vac"); ok {
			status["currentVolumeAttributesClassName"] = shared(current)
		}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	return string(patch), err
}

// owner is a reference to a pod of the scenario.
func (p *Player) owner(name string) ([]metav1.OwnerReference, error) {
	uid, err := p.uid("pod/" + name)
	if err != nil {
		return nil, err
	}
	return []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid), Controller: new(true), BlockOwnerDeletion: new(true),
	}}, nil
}
