package inventory

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// mostPooled bounds the values of each type that a pool has.
	mostPooled = 20_000
	// mostOfPooled bounds the length of a text in a pool. Longer ones are rarely equal.
	mostOfPooled = 64
)

// pool has one copy of values that many objects have: names of classes, drivers and nodes, labels, sizes, and
// the hashes of managed fields. What the objects of a pool share must not be changed. It is safe for several
// goroutines.
type pool struct {
	mu     sync.Mutex
	texts  map[string]string
	maps   map[uint64]map[string]string // by their hash; nil for what was seen once
	sizes  map[string]corev1.ResourceList
	fields map[uint64]*metav1.FieldsV1
}

func newPool() *pool {
	return &pool{
		texts: map[string]string{}, maps: map[uint64]map[string]string{}, sizes: map[string]corev1.ResourceList{},
		fields: map[uint64]*metav1.FieldsV1{},
	}
}

// kept returns the value of a pool with a key, and adds it if there is none.
func kept[K comparable, V any](in map[K]V, key K, value func() V) V {
	if known, is := in[key]; is {
		return known
	}
	if len(in) >= mostPooled {
		clear(in) // the objects keep what they have
	}
	v := value()
	in[key] = v
	return v
}

func (p *pool) text(text string) string {
	if text == "" || len(text) > mostOfPooled {
		return text
	}
	return kept(p.texts, text, func() string { return text })
}

// setText replaces a text of a named type by the pool's copy.
func setText[T ~string](p *pool, texts ...*T) {
	for _, text := range texts {
		if text != nil {
			*text = T(p.text(string(*text)))
		}
	}
}

// texted returns labels or annotations with the pool's texts: the same map for equal ones, from the
// second on, since many are those of one object alone.
func (p *pool) texted(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	hash := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, _ = hash.Write([]byte(name + "\x00" + all[name] + "\x00")) // never fails
	}
	key := hash.Sum64()
	known, wasSeen := p.maps[key]
	if wasSeen && maps.Equal(known, all) {
		return known
	}
	own := make(map[string]string, len(all))
	for name, value := range all {
		own[p.text(name)] = p.text(value)
	}
	if len(p.maps) >= mostPooled {
		clear(p.maps)
	}
	if p.maps[key] = nil; wasSeen {
		p.maps[key] = own
	}
	return own
}

// sized returns the pool's copy of a list of resources.
func (p *pool) sized(all corev1.ResourceList) corev1.ResourceList {
	if len(all) == 0 {
		return nil
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		quantity := all[name]
		key.WriteString(string(name) + "\x00" + quantity.String() + "\x00")
	}
	return kept(p.sizes, key.String(), func() corev1.ResourceList { return all })
}

// hashed returns fields as a hash by which a write of the same ones is seen. A hash stays what it is.
func (p *pool) hashed(fields *metav1.FieldsV1) *metav1.FieldsV1 {
	const begin = `{"hash":"`
	raw := fields.GetRawString()
	if strings.HasPrefix(raw, begin) {
		return fields
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(raw)) // never fails
	return kept(p.fields, hash.Sum64(), func() *metav1.FieldsV1 {
		return metav1.NewFieldsV1(fmt.Sprintf(`%s%x"}`, begin, hash.Sum64()))
	})
}

// share replaces values of an object by the pool's copies.
func (p *pool) share(o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.SetNamespace(p.text(o.GetNamespace()))
	o.SetLabels(p.texted(o.GetLabels()))
	o.SetAnnotations(p.texted(o.GetAnnotations()))
	for i, name := range o.GetFinalizers() {
		o.GetFinalizers()[i] = p.text(name)
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		setText(p, &owners[i].APIVersion, &owners[i].Kind, &owners[i].Name)
		setText(p, &owners[i].UID)
	}
	fields := o.GetManagedFields()
	for i := range fields {
		e := &fields[i]
		setText(p, &e.Manager, &e.APIVersion, &e.FieldsType, &e.Subresource)
		setText(p, &e.Operation)
		if e.FieldsV1 != nil {
			e.FieldsV1 = p.hashed(e.FieldsV1)
		}
	}
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		p.claim(o)
	case *corev1.PersistentVolume:
		p.volume(o)
	case *corev1.Pod:
		p.pod(&o.Spec)
	case *storagev1.VolumeAttachment:
		setText(p, &o.Spec.Attacher, &o.Spec.NodeName)
	}
}

func (p *pool) claim(o *corev1.PersistentVolumeClaim) {
	setText(p, o.Spec.StorageClassName)
	setText(p, o.Spec.VolumeMode)
	o.Spec.Resources.Requests = p.sized(o.Spec.Resources.Requests)
	o.Status.Capacity = p.sized(o.Status.Capacity)
	setText(p, &o.Status.Phase)
	p.modes(o.Spec.AccessModes, o.Status.AccessModes)
}

func (p *pool) volume(o *corev1.PersistentVolume) {
	setText(p, &o.Spec.StorageClassName)
	setText(p, o.Spec.VolumeMode)
	setText(p, &o.Spec.PersistentVolumeReclaimPolicy)
	setText(p, &o.Status.Phase)
	o.Spec.Capacity = p.sized(o.Spec.Capacity)
	p.modes(o.Spec.AccessModes)
	if of := o.Spec.ClaimRef; of != nil {
		setText(p, &of.APIVersion, &of.Kind, &of.Namespace)
	}
	if o.Spec.CSI != nil {
		setText(p, &o.Spec.CSI.Driver, &o.Spec.CSI.FSType)
		o.Spec.CSI.VolumeAttributes = p.texted(o.Spec.CSI.VolumeAttributes)
	}
}

func (p *pool) modes(lists ...[]corev1.PersistentVolumeAccessMode) {
	for _, list := range lists {
		for i := range list {
			setText(p, &list[i])
		}
	}
}

func (p *pool) pod(o *corev1.PodSpec) {
	setText(p, &o.NodeName, &o.SchedulerName, &o.ServiceAccountName, &o.DeprecatedServiceAccount)
	o.NodeSelector = p.texted(o.NodeSelector)
	for i := range o.Volumes {
		setText(p, &o.Volumes[i].Name)
	}
	for _, list := range [][]corev1.Container{o.InitContainers, o.Containers} {
		for i := range list {
			c := &list[i]
			setText(p, &c.Name, &c.Image)
			c.Resources.Requests, c.Resources.Limits = p.sized(c.Resources.Requests), p.sized(c.Resources.Limits)
			for m := range c.VolumeMounts {
				setText(p, &c.VolumeMounts[m].Name, &c.VolumeMounts[m].MountPath)
			}
		}
	}
}
