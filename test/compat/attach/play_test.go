package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// play is one scenario on one side. Nodes, volumes and pods have its name as a prefix.
type play struct {
	*side
	ctx    context.Context
	prefix string
	pods   []string
	nodes  []string
	vols   []string
}

// step is a verb with words. See [play.take].
func (p *play) run(script string) error {
	for line := range strings.SplitSeq(script, ";") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := p.take(words[0], words[1:]); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	return nil
}

func (p *play) name(short string) string { return p.prefix + short }

// take takes one step:
//
//	node N [unmanaged] [nodriver]   creates a node; register N adds the driver to its CSINode
//	vol V MODE[,MODE] [OPTION...]   creates a bound pair; options ro, block, context, unbound, in-tree
//	bind V                          binds the claim of an unbound volume
//	pod P N V; inline P N V (the pod names the in-tree volume in place)
//	rm P; succeed P; terminate P (a finalizer and a running container keep it)
//	use N V; free N V               what the node reports in use
//	down N; up N; taint N; rmnode N
//	fail V CODE TIMES               the next calls fail
//	lose V N                        the driver unpublishes a volume that it was not asked to
//	rmva V N; rmpv V
//	listed N V; unlisted N V; gone V N; failed V N; published V N; event P REASON; pause
func (p *play) take(verb string, w []string) error {
	switch verb {
	case "node":
		return p.node(w[0], w[1:])
	case "register":
		return p.register(p.name(w[0]))
	case "vol":
		return p.volume(w[0], w[1], w[2:])
	case "bind":
		return p.bind(p.name(w[0]))
	case "pod", "terminate":
		return p.pod(w)
	case "inline":
		p.vols = append(p.vols, p.name(w[2]))
		return p.podWith(w, corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: p.name(w[2])}})
	case "rm":
		return p.api.Delete(p.ctx, &corev1.Pod{ObjectMeta: p.meta(w[0])}, client.GracePeriodSeconds(0))
	case "succeed":
		return p.podStatus(w[0], func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
	case "fail":
		times, err := strconv.Atoi(w[2])
		var code codes.Code
		err = errors.Join(err, code.UnmarshalJSON([]byte(strconv.Quote(w[1]))))
		p.driver.fail(p.name(w[0]), code, times)
		return err
	case "rmva":
		va, err := p.attachment(w[0], w[1])
		if err == nil && va != nil {
			err = p.api.Delete(p.ctx, va)
		}
		return err
	case "rmpv":
		return p.api.Delete(p.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: p.name(w[0])}})
	case "lose":
		p.driver.lose(p.name(w[0]), "id-"+p.name(w[1]))
		return nil
	case "pause":
		_, err := p.settle(calm)
		return err
	}
	if edit := nodeEdits[verb]; edit != nil {
		return p.edit(w, edit)
	}
	return p.wait(verb, w)
}

func (p *play) meta(short string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: p.name(short)}
}

func (p *play) node(short string, options []string) error {
	name := p.name(short)
	p.nodes = append(p.nodes, name)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"}}}
	if slices.Contains(options, "unmanaged") {
		node.Annotations = nil
	}
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{names.AnnMigratedPlugins: plugin},
	}}
	if !slices.Contains(options, "nodriver") {
		csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id-" + name}}
	}
	err := p.api.Create(p.ctx, node)
	return errors.Join(err, client.IgnoreAlreadyExists(p.api.Create(p.ctx, csiNode)), p.edit([]string{short}, nodeEdits["up"]))
}

func (p *play) register(name string) error {
	node := &storagev1.CSINode{}
	if err := p.api.Get(p.ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id-" + name}}
	return p.api.Update(p.ctx, node)
}

// nodeEdits change a node; the words are the node's name and a volume's.
var nodeEdits = map[string]func(node *corev1.Node, volume corev1.UniqueVolumeName){
	"up":   func(n *corev1.Node, _ corev1.UniqueVolumeName) { setReady(n, corev1.ConditionTrue) },
	"down": func(n *corev1.Node, _ corev1.UniqueVolumeName) { setReady(n, corev1.ConditionUnknown) },
	"taint": func(n *corev1.Node, _ corev1.UniqueVolumeName) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: names.TaintOutOfService, Value: "x", Effect: corev1.TaintEffectNoExecute})
	},
	"use": func(n *corev1.Node, v corev1.UniqueVolumeName) {
		if !slices.Contains(n.Status.VolumesInUse, v) {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, v)
		}
	},
	"free": func(n *corev1.Node, v corev1.UniqueVolumeName) {
		n.Status.VolumesInUse = slices.DeleteFunc(n.Status.VolumesInUse, func(other corev1.UniqueVolumeName) bool { return other == v })
	},
	"rmnode": nil,
}

func setReady(n *corev1.Node, is corev1.ConditionStatus) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}}
}

func (p *play) edit(w []string, change func(*corev1.Node, corev1.UniqueVolumeName)) error {
	var unique corev1.UniqueVolumeName
	if len(w) > 1 {
		unique = corev1.UniqueVolumeName(names.UniqueVolumeName(driverName, p.name(w[1])))
	}
	for _, write := range []func(*corev1.Node) error{
		func(n *corev1.Node) error { return p.api.Update(p.ctx, n) },
		func(n *corev1.Node) error { return p.api.Status().Update(p.ctx, n) },
	} {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			node := &corev1.Node{}
			if err := p.api.Get(p.ctx, client.ObjectKey{Name: p.name(w[0])}, node); err != nil {
				return err
			}
			change(node, unique)
			return write(node)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var modes = map[string]corev1.PersistentVolumeAccessMode{
	"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
}

func (p *play) volume(short, mode string, options []string) error {
	name := p.name(short)
	p.vols = append(p.vols, name)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: p.meta(short), Spec: corev1.PersistentVolumeClaimSpec{
		VolumeName: name, StorageClassName: new(""), Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	for m := range strings.SplitSeq(mode, ",") {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, modes[m])
	}
	if slices.Contains(options, "block") {
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	if err := p.api.Create(p.ctx, claim); err != nil {
		return err
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		VolumeMode: claim.Spec.VolumeMode,
		ClaimRef:   &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driverName, VolumeHandle: name, ReadOnly: slices.Contains(options, "ro"),
		}},
	}}
	if slices.Contains(options, "context") {
		pv.Spec.CSI.VolumeAttributes, pv.Spec.CSI.FSType, pv.Spec.MountOptions = map[string]string{"pool": "p"}, "xfs", []string{"noatime"}
	}
	if slices.Contains(options, "in-tree") {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: name}}
	}
	if err := p.api.Create(p.ctx, pv); err != nil || slices.Contains(options, "unbound") {
		return err
	}
	return p.bind(name)
}

func (p *play) bind(name string) error {
	claim, pv := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	err := errors.Join(p.api.Get(p.ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim),
		p.api.Get(p.ctx, client.ObjectKey{Name: name}, pv))
	if err != nil {
		return err
	}
	// Patches, since a controller can write the objects meanwhile.
	claimBefore, pvBefore := client.MergeFrom(claim.DeepCopy()), client.MergeFrom(pv.DeepCopy())
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = corev1.ClaimBound, pv.Spec.AccessModes, pv.Spec.Capacity
	pv.Status.Phase = corev1.VolumeBound
	return errors.Join(p.api.Status().Patch(p.ctx, claim, claimBefore), p.api.Status().Patch(p.ctx, pv, pvBefore))
}

// pod creates a pod; "terminate P" has one that runs be deleted and stay.
func (p *play) pod(w []string) error {
	if len(w) == 1 {
		running := corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		err := p.podStatus(w[0], func(s *corev1.PodStatus) {
			s.Phase, s.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{running}
		})
		return errors.Join(err, p.api.Delete(p.ctx, &corev1.Pod{ObjectMeta: p.meta(w[0])}, client.GracePeriodSeconds(3600)))
	}
	return p.podWith(w, corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.name(w[2])},
	})
}

// podWith creates a pod on a node with one volume.
func (p *play) podWith(w []string, volume corev1.VolumeSource) error {
	p.pods = append(p.pods, p.name(w[0]))
	return p.api.Create(p.ctx, &corev1.Pod{ObjectMeta: p.meta(w[0]), Spec: corev1.PodSpec{
		NodeName: p.name(w[1]), Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false),
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: volume}},
	}})
}

func (p *play) podStatus(short string, change func(*corev1.PodStatus)) error {
	pod := &corev1.Pod{}
	if err := p.api.Get(p.ctx, client.ObjectKey{Namespace: namespace, Name: p.name(short)}, pod); err != nil {
		return err
	}
	change(&pod.Status)
	return p.api.Status().Update(p.ctx, pod)
}

// attachment is the VolumeAttachment of a volume on a node; nil if there is none.
func (p *play) attachment(volume, node string) (*storagev1.VolumeAttachment, error) {
	va := &storagev1.VolumeAttachment{}
	name := names.AttachmentName(p.name(volume), driverName, p.name(node))
	err := p.api.Get(p.ctx, client.ObjectKey{Name: name}, va)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	return va, nil
}

const (
	patience = 60 * time.Second
	calm     = 1500 * time.Millisecond
)

// wait waits for what a step says.
func (p *play) wait(verb string, w []string) error {
	if verb == "rmnode" {
		return p.api.Delete(p.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.name(w[0])}})
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		done, err := p.holds(verb, w)
		if err != nil || done {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("it does not become true")
		}
	}
}

func (p *play) holds(verb string, w []string) (bool, error) {
	switch verb {
	case "listed", "unlisted":
		node := &corev1.Node{}
		if err := p.api.Get(p.ctx, client.ObjectKey{Name: p.name(w[0])}, node); err != nil {
			return false, err
		}
		unique := corev1.UniqueVolumeName(names.UniqueVolumeName(driverName, p.name(w[1])))
		is := slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == unique })
		return is == (verb == "listed"), nil
	case "published":
		return slices.Contains(p.driver.published(p.name(w[0])), "id-"+p.name(w[1])), nil
	case "gone", "failed":
		va, err := p.attachment(w[0], w[1])
		if verb == "gone" {
			return va == nil, err
		}
		return va != nil && (va.Status.AttachError != nil || va.Status.DetachError != nil), err
	case "event":
		events, err := p.events(p.name(w[0]))
		return slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, w[1]) }), err
	}
	return false, errors.New("no such step")
}
