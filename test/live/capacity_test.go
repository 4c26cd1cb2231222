package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/rolestest"
)

// zonedDriver is a driver whose zones have a capacity, from which its volumes are subtracted.
type zonedDriver struct {
	*scriptedDriver

	mu       sync.Mutex
	room     map[string]int64  // by zone; "" for a driver without topology
	down     map[string]bool   // zones that do not answer
	requests map[string]string // the last GetCapacity request, by zone
	zones    map[string]string // of volumes, by name
	sizes    map[string]int64
	refused  int // CreateVolume calls
}

func newZonedDriver(room map[string]int64) *zonedDriver {
	d := &zonedDriver{
		scriptedDriver: &scriptedDriver{name: "csi.example", capabilities: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		}},
		room: room, down: map[string]bool{}, requests: map[string]string{}, zones: map[string]string{}, sizes: map[string]int64{},
	}
	_, flat := room[""]
	d.topology = !flat
	d.self = d
	return d
}

func (d *zonedDriver) GetCapacity(_ context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	zone := r.GetAccessibleTopology().GetSegments()["zone"]
	d.requests[zone] = r.String()
	if d.down[zone] {
		return nil, status.Error(codes.Unavailable, "the pool of zone "+zone+" is down")
	}
	return &csi.GetCapacityResponse{AvailableCapacity: d.room[zone]}, nil
}

func (d *zonedDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := r.GetCapacityRange().GetRequiredBytes()
	zone, has := d.zones[r.GetName()]
	if preferred := r.GetAccessibilityRequirements().GetPreferred(); !has && len(preferred) > 0 {
		zone = preferred[0].GetSegments()["zone"]
	}
	if !has && d.room[zone] < size {
		d.refused++
		return nil, status.Errorf(codes.ResourceExhausted, "zone %q has %d bytes, want %d", zone, d.room[zone], size)
	}
	if !has {
		d.zones[r.GetName()], d.sizes[r.GetName()] = zone, size
		d.room[zone] -= size
	}
	volume := &csi.Volume{VolumeId: r.GetName(), CapacityBytes: size}
	if d.topology {
		volume.AccessibleTopology = []*csi.Topology{{Segments: map[string]string{"zone": zone}}}
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (d *zonedDriver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if zone, ok := d.zones[r.GetVolumeId()]; ok {
		d.room[zone] += d.sizes[r.GetVolumeId()]
		delete(d.zones, r.GetVolumeId())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// set changes the room or the state of a zone.
func (d *zonedDriver) set(change func(*zonedDriver)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// waitingClass creates a class with the binding mode WaitForFirstConsumer.
func (p liveCluster) waitingClass(name, driver string, parameters map[string]string) *storagev1.StorageClass {
	p.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1Name(name), Provisioner: driver, Parameters: parameters,
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	p.create(class)
	return class
}

// zonedNode creates a node on which the driver is registered with the topology key zone.
func (p liveCluster) zonedNode(name, zone, driver string) *corev1.Node {
	p.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone, corev1.LabelHostname: name}}}
	p.create(node, &storagev1.CSINode{ObjectMeta: metav1Name(name), Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: name, TopologyKeys: []string{"zone"}}},
	}})
	return node
}

// ownedPod creates a pod of a Deployment in the namespace purser-system. It returns the pod, the
// ReplicaSet and the Deployment.
func (p liveCluster) ownedPod(name string) (owners []client.Object) {
	p.Helper()
	meta := func(owner client.Object, kind string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: name}
		if owner != nil {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}}
		}
		return m
	}
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}}, ServiceAccountName: "csi-provisioner", AutomountServiceAccountToken: new(false),
		},
	}
	deployment := &appsv1.Deployment{ObjectMeta: meta(nil, ""), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	p.create(deployment)
	set := &appsv1.ReplicaSet{ObjectMeta: meta(deployment, "Deployment"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
	p.create(set)
	pod := &corev1.Pod{ObjectMeta: meta(set, "ReplicaSet"), Spec: template.Spec}
	p.create(pod)
	return []client.Object{pod, set, deployment}
}

// publishing runs a provisioner that publishes capacities, with the shipped permissions.
func (p liveCluster) publishing(socket string, args ...string) (role *provisioner.Provisioner, address func() string, end func()) {
	p.Helper()
	role, address = liveProvisioner(p.T, p.as("csi-provisioner"), socket, append([]string{
		"--leader-election-namespace=" + process.SystemNamespace, "--enable-capacity", "--capacity-poll-interval=1s", "--retry-interval-start=100ms",
	}, args...)...)
	return role, address, rolestest.InBackground(p.T, role.Run)
}

// capacities returns the published objects as text, by class and zone.
func (p liveCluster) capacities() (map[string]string, []storagev1.CSIStorageCapacity) {
	p.Helper()
	var list storagev1.CSIStorageCapacityList
	if err := p.user.List(p.Context(), &list, client.InNamespace(process.SystemNamespace)); err != nil {
		p.Fatal(err)
	}
	texts := map[string]string{}
	for i := range list.Items {
		o := &list.Items[i]
		zone := ""
		if o.NodeTopology != nil {
			zone = o.NodeTopology.MatchLabels["zone"]
		}
		value := "unknown"
		if o.Capacity != nil {
			value = o.Capacity.String()
		}
		key := strings.TrimSuffix(o.StorageClassName+" "+zone, " ")
		if texts[key] != "" {
			value = texts[key] + " and " + value
		}
		texts[key] = value
	}
	return texts, list.Items
}

func (p liveCluster) awaitCapacities(what string, want map[string]string) {
	p.Helper()
	rolestest.Eventually(p.T, what, func() error {
		if got, _ := p.capacities(); !maps.Equal(got, want) {
			return fmt.Errorf("published %v, want %v", got, want)
		}
		return nil
	})
}

// CSIStorageCapacity objects are created, updated and deleted on a real API server, with exactly
// the permissions of upstream's role: S-1 to S-3, S-6 to S-9, S-12, S-13, S-15 and S-20.
func TestCapacityIsPublished(t *testing.T) {
	p := newLiveCluster(t)
	d := newZonedDriver(map[string]int64{"a": 10 << 30, "b": 5 << 30})
	owners := p.ownedPod("provisioner")
	t.Setenv("NAMESPACE", process.SystemNamespace)
	t.Setenv("POD_NAME", "provisioner")
	p.waitingClass("fast", d.name, map[string]string{"pool": "fast", "csi.storage.k8s.io/fstype": "xfs"})
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("now"), Provisioner: d.name})
	p.zonedNode("n1", "a", d.name)
	p.zonedNode("n2", "b", d.name)
	// An object that upstream wrote, one of a removed node, and one of a removed segment.
	upstreams := p.foreignCapacity("csisc-x7x2p", "fast", "a", names.CapacityManager(""))
	p.foreignCapacity("csisc-left", "fast", "z", names.CapacityManager("gone"))
	p.foreignCapacity("csisc-old", "fast", "y", names.CapacityManager(""))
	_, address, _ := p.publishing(d.serve(t), "--capacity-ownerref-level=2", "--capacity-max-age=2s")

	p.awaitCapacities("both zones", map[string]string{"fast a": "10Gi", "fast b": "5Gi"})
	_, objects := p.capacities()
	for i := range objects {
		o := &objects[i]
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != "Deployment" || owner.UID != owners[2].GetUID() {
			t.Errorf("F-21: owners %+v", o.OwnerReferences)
		}
		if o.Labels[names.LabelCapacityDriver] != d.name || o.Labels[names.LabelCapacityManagedBy] != "external-provisioner" {
			t.Errorf("LB-1: labels %v", o.Labels)
		}
	}
	if !slices.ContainsFunc(objects, func(o storagev1.CSIStorageCapacity) bool { return o.UID == upstreams.UID }) {
		t.Error("S-20: upstream's object was not adopted")
	}
	d.set(func(d *zonedDriver) {
		if r := d.requests["a"]; !strings.Contains(r, "pool") || strings.Contains(r, "fstype") {
			t.Errorf("S-7: request %s", r)
		}
	})

	d.set(func(d *zonedDriver) { d.room["a"] = 7 << 30 })
	p.awaitCapacities("S-14: a poll", map[string]string{"fast a": "7Gi", "fast b": "5Gi"})
	n3 := p.zonedNode("n3", "c", d.name)
	p.awaitCapacities("S-3: a new zone", map[string]string{"fast a": "7Gi", "fast b": "5Gi", "fast c": "0"})
	slow := p.waitingClass("slow", d.name, nil)
	p.awaitCapacities("S-13: a new class", map[string]string{
		"fast a": "7Gi", "fast b": "5Gi", "fast c": "0", "slow a": "7Gi", "slow b": "5Gi", "slow c": "0",
	})
	p.remove(n3)
	p.remove(slow)
	p.awaitCapacities("S-13: zone and class are gone", map[string]string{"fast a": "7Gi", "fast b": "5Gi"})
	p.disturb()
	p.awaitCapacities("S-12: all is restored", map[string]string{"fast a": "7Gi", "fast b": "5Gi"})

	d.set(func(d *zonedDriver) { d.down["a"] = true })
	rolestest.Eventually(t, "S-9: the failing segment is counted", func() error {
		if n := value(scrape(t, address()+"/metrics")["purser_capacity_failing"]); n != 1 {
			return fmt.Errorf("%v segments fail", n)
		}
		return nil
	})
	p.awaitCapacities("S-9: an old answer is withdrawn", map[string]string{"fast a": "unknown", "fast b": "5Gi"})
	class := &storagev1.StorageClass{}
	if err := p.user.Get(t.Context(), client.ObjectKey{Name: "fast"}, class); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "S-9: the event", func() error { return p.eventIn("default", class, "CapacityUnknown") })
	d.set(func(d *zonedDriver) { d.down["a"] = false })
	p.awaitCapacities("the zone is back", map[string]string{"fast a": "7Gi", "fast b": "5Gi"})
	seen := scrape(t, address()+"/metrics")
	for name, want := range map[string]float64{
		"csistoragecapacities_desired_goal": 2, "csistoragecapacities_desired_current": 2, "csistoragecapacities_obsolete": 0, "purser_capacity_failing": 0,
	} {
		if seen[name] == nil || value(seen[name]) != want {
			t.Errorf("ME-5: %s is %v, want %v", name, seen[name], want)
		}
	}
	tally := p.asked(0, p.mark(), "csi-provisioner")
	if refused := tally.Answered(401, 403); refused > 0 {
		t.Errorf("%d requests were forbidden: %v", refused, tally)
	}
}

// foreignCapacity creates an object as another provisioner writes it.
func (p liveCluster) foreignCapacity(name, class, zone, manager string) *storagev1.CSIStorageCapacity {
	p.Helper()
	object := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: name, Labels: map[string]string{
			names.LabelCapacityDriver: "csi.example", names.LabelCapacityManagedBy: manager,
		}},
		StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}},
		Capacity: new(resource.MustParse("1Gi")),
	}
	p.create(object)
	return object
}

// disturb changes one published object and deletes the other, as a user may (S-12).
func (p liveCluster) disturb() {
	p.Helper()
	_, objects := p.capacities()
	before := objects[0].DeepCopy()
	objects[0].Labels = nil
	if err := p.user.Patch(p.Context(), &objects[0], client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	if err := p.user.Delete(p.Context(), &objects[1]); err != nil {
		p.Fatal(err)
	}
}

// eventIn returns an error unless a cluster-scoped object has an event of the reason in the
// namespace.
func (p liveCluster) eventIn(namespace string, about client.Object, reason string) error {
	var list corev1.EventList
	if err := p.user.List(p.Context(), &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].InvolvedObject.UID == about.GetUID() && list.Items[i].Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s among %d", reason, len(list.Items))
}

// S-2, S-11: the only object of a driver without topology is written once, and never read.
func TestCapacityWithoutTopology(t *testing.T) {
	p := newLiveCluster(t)
	d := newZonedDriver(map[string]int64{"": 3 << 30})
	t.Setenv("NAMESPACE", process.SystemNamespace)
	p.waitingClass("flat", d.name, nil)
	socket := d.serve(t)
	_, _, end := p.publishing(socket, "--capacity-ownerref-level=-1", "--capacity-poll-interval=200ms")
	p.awaitCapacities("the object", map[string]string{"flat": "3Gi"})
	begin, polls := p.mark(), d.called("GetCapacity")
	rolestest.Eventually(t, "ten polls", func() error {
		if n := d.called("GetCapacity") - polls; n < 10 {
			return fmt.Errorf("%d polls", n)
		}
		return nil
	})
	tally := p.asked(begin, p.mark(), "csi-provisioner")
	if asked := tally.Where(func(r audit.Request) bool { return r.Resource == "csistoragecapacities" }); asked.All() > 0 {
		t.Errorf("S-11: requests in ten polls: %v", asked)
	}
	end()
	_, before := p.capacities()
	p.publishing(socket, "--capacity-ownerref-level=-1")
	d.set(func(d *zonedDriver) { d.room[""] = 2 << 30 })
	p.awaitCapacities("S-20: the next leader goes on", map[string]string{"flat": "2Gi"})
	if _, after := p.capacities(); len(after) != 1 || after[0].UID != before[0].UID {
		t.Error("S-20: the object was not adopted")
	}
}

// S-15: CreateVolume and DeleteVolume update the published capacity long before the next poll.
func TestCapacityFollowsVolumes(t *testing.T) {
	p := newLiveCluster(t)
	d := newZonedDriver(map[string]int64{"a": 10 << 30})
	t.Setenv("NAMESPACE", process.SystemNamespace)
	p.waitingClass("fast", d.name, nil)
	p.zonedNode("n1", "a", d.name)
	p.publishing(d.serve(t), "--capacity-ownerref-level=-1", "--capacity-poll-interval=10h")
	p.awaitCapacities("the zone", map[string]string{"fast a": "10Gi"})
	claim := p.asks("data", "fast", map[string]string{names.AnnStorageProvisioner: d.name, names.AnnSelectedNode: "n1"})
	p.awaitCapacities("a volume was created", map[string]string{"fast a": "9Gi"})
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pvc-" + string(claim.UID))}
	await(p, "the volume", pv, func(*corev1.PersistentVolume) bool { return true })
	p.release(claim, pv)
	p.awaitCapacities("the volume was deleted", map[string]string{"fast a": "10Gi"})
	d.set(func(d *zonedDriver) { d.room["a"] = 1 << 20 })
	p.asks("more", "fast", map[string]string{names.AnnStorageProvisioner: d.name, names.AnnSelectedNode: "n1"})
	p.awaitCapacities("the zone is full", map[string]string{"fast a": "1Mi"})
	d.set(func(d *zonedDriver) {
		if d.refused == 0 {
			t.Error("no call was refused")
		}
	})
}

// release does what the controllers of a cluster do when a claim is deleted: the claim is removed,
// its PV is released, and the protection finalizers are removed.
func (p liveCluster) release(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Finalizers = nil
	err := errors.Join(p.user.Patch(p.Context(), claim, client.MergeFrom(before)), p.user.Delete(p.Context(), claim))
	old := pv.DeepCopy()
	pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == names.FinalizerPVProtection })
	err = errors.Join(err, p.user.Patch(p.Context(), pv, client.MergeFrom(old)))
	old = pv.DeepCopy()
	pv.Status.Phase = corev1.VolumeReleased
	if err = errors.Join(err, p.user.Status().Patch(p.Context(), pv, client.MergeFrom(old))); err != nil {
		p.Fatal(err)
	}
}
