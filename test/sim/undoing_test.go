package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	sizes "github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// Workloads in which something makes the work of a controller vain for a while, so that it would do the
// same again and again: another program undoes each write. They have many operations, so they take part
// in few families.

var fewFamilies = []string{"crash", "everything deleted while something is missing", "anything together"}

// undo has another program change objects back for a while, as soon as it sees them.
func (u *user) undo(lasts time.Duration, back func() error) {
	ctx, cancel := context.WithTimeout(u.world.ctx, lasts)
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	u.world.server.Listen(changed)
	go func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			time.Sleep(530 * time.Microsecond)
			_ = back()
		}
	}()
	u.pause(lasts)
	u.world.log("the other program stops")
}

// undoEach calls back for each object of a kind, which reports whether it has changed the object.
func undoEach[T client.Object](u *user, kind T, status bool, back func(T) bool) func() error {
	return func() (err error) {
		for _, o := range apiserver.Objects(u.world.server, kind) {
			switch {
			case !back(o):
			case status:
				err = u.api.Status().Update(u.world.ctx, o)
			default:
				err = u.api.Update(u.world.ctx, o)
			}
		}
		return err
	}
}

func without(o client.Object, finalizer string) bool {
	left := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer })
	if o.GetDeletionTimestamp() != nil || len(left) == len(o.GetFinalizers()) {
		return false
	}
	o.SetFinalizers(left)
	return true
}

var vainWorkloads = []workload{
	{
		name: "another program removes the finalizer of volumes", few: true, repeated: true, contested: true, setup: immediate,
		script: func(u *user) {
			u.claim("a")
			u.untilBound("a")
			u.undo(4*time.Second, undoEach(u, &corev1.PersistentVolume{}, false, func(pv *corev1.PersistentVolume) bool {
				return pv.Spec.ClaimRef != nil && without(pv, names.FinalizerVolume)
			}))
		},
	},
	{
		name: "a secret comes after two minutes", few: true, secrets: true, repeated: true, setup: func(u *user) {
			u.secretClass()
		}, script: func(u *user) {
			u.claim("a")
			u.pause(2 * time.Minute)
			u.secret()
			u.untilBound("a")
		},
	},
	{
		name: "a volume with a secret comes and goes", few: true, secrets: true, setup: func(u *user) {
			u.secretClass()
			u.secret()
		}, script: func(u *user) {
			u.claim("a")
			u.untilBound("a")
			u.deleteClaim("a")
			u.untilNoVolumes()
		},
	},
	{
		name: "a slip for 20G", few: true, repeated: true, setup: immediate, script: func(u *user) {
			u.claim("huge", asking("20E"))
			u.claim("a", asking("20G"))
			u.untilBound("a")
			u.pause(2 * time.Minute)
			u.deleteClaim("huge")
		},
	},
}

// secretClass creates a class whose parameters name a secret.
func (u *user) secretClass() {
	u.try(func() error {
		class := &storagev1.StorageClass{Provisioner: driverName, Parameters: map[string]string{
			names.ParameterProvisionerSecretName: secretName, names.ParameterProvisionerSecretNamespace: claimNamespace,
		}}
		class.Name = className
		return u.api.Create(u.world.ctx, class)
	})
}

const secretName = "credentials"

func (u *user) secret() {
	u.world.log("administrator creates secret %s", secretName)
	secret := &corev1.Secret{Data: map[string][]byte{"key": []byte("value")}}
	secret.Namespace, secret.Name = claimNamespace, secretName
	u.try(func() error { return u.api.Create(u.world.ctx, secret.DeepCopy()) })
}

func asking(much string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(much)}
	}
}

// asked is I10 for a request: it asks for what the claim asks for.
func (w *world) asked(request *csi.CreateVolumeRequest) {
	bytes := request.GetCapacityRange().GetRequiredBytes()
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if !strings.HasSuffix(request.GetName(), string(claim.UID)) {
			continue
		}
		if wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]; sizes.Compare(sizes.Quantity(bytes), wants) < 0 {
			w.violate("I10: %d bytes are requested for claim %s, which asks for %s", bytes, claim.Name, wants.String())
		}
	}
}

// vainMutants must all be caught.
var vainMutants = []mutant{
	{name: "repeats what changes nothing without a delay", repeats: 1 << 30},
	{name: "emits no event", mute: true},
	{name: "takes the wall clock for the time that passes", by: "the clock is set forward", wall: true},
	{name: "deletes no volume whose class is gone", by: "everything deleted while something is missing", client: needs(func(pv *corev1.PersistentVolume) string { return pv.Spec.StorageClassName }, &storagev1.StorageClass{})},
	{name: "takes the bytes of a quantity as they come", cached: cachedEdits(roundBytes)},
}
