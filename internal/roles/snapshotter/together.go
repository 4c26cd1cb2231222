package snapshotter

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/journal"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/snapshot"
)

// ColocatedSettings are about the controllers and the csi-provisioner in the same process, which hosts this
// role.
type ColocatedSettings struct {
	// Snapshots is what the roles know of snapshots, in place of marks in the API server; nil for none.
	Snapshots *handoff.Snapshots
	// NoJournal has the calls be marked in the API server, and not recorded in the journal.
	NoJournal bool
	// SkipUnreadable is --purser-skip-unreadable-journal.
	SkipUnreadable bool
}

// Reads returns the fields that the role reads in the cache of the controllers in the same process, besides
// those that the controllers read.
func Reads() []*kube.Fields {
	return []*kube.Fields{
		kube.VolumeFields, kube.ProvisionedVolumeFields, kube.ClaimFields,
		kube.Whole[snapshotv1.VolumeSnapshot](), kube.Whole[snapshotv1.VolumeSnapshotContent](),
		kube.Whole[snapshotv1.VolumeSnapshotClass](),
	}
}

// reads returns the fields that the snapshot-controller reads. Alone it replaces claims, which it has whole.
func (c controllerSettings) reads() []*kube.Fields {
	if c.together != nil {
		return Reads()
	}
	return append(Reads(), kube.Whole[corev1.PersistentVolume](), kube.Whole[corev1.PersistentVolumeClaim]())
}

// needs returns the kinds without which the roles are left out of the process of the controllers, whose other
// roles do without.
func (c controllerSettings) needs() []schema.GroupVersionKind {
	if c.together == nil {
		return nil
	}
	return []schema.GroupVersionKind{
		snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"),
		snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotContent"),
		snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass"),
	}
}

const absentKinds = "the API server does not serve VolumeSnapshots, so none are taken: install their custom " +
	"resources and start again"

// openJournal returns the journal of the calls that create snapshots, and adds it to the manager; nil where
// the annotation of the content is written instead.
func (s *Snapshotter) openJournal(ctx context.Context, run *sidecar.Sidecar) (snapshot.Journal, error) {
	if s.InProcess.Snapshots == nil || s.InProcess.NoJournal {
		return nil, nil //nolint:nilnil // the annotation is enough
	}
	namespace, log := run.Config.Election.LeaseNamespace(), logr.FromContextOrDiscard(ctx)
	if !mayJournal(ctx, run, namespace) {
		log.Info("calls of CreateSnapshot are marked on the VolumeSnapshotContents, which takes two more writes. "+
			"Allow get, create and update of leases.coordination.k8s.io in the namespace for a journal of them",
			"namespace", namespace)
		return nil, nil //nolint:nilnil // as above
	}
	dedicated := kube.DedicatedTransport(run.API)
	dedicated.Timeout = s.Timeout
	api, err := client.New(dedicated, client.Options{
		Scheme: run.Manager.GetScheme(), Mapper: run.Manager.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("journal of CreateSnapshot calls: %w", err)
	}
	j := journal.New(journal.Config{
		Live: api, Writer: api, Namespace: namespace,
		Name:   names.SnapshotJournalLeasePrefix + process.DriverLeaseName(run.Driver.Name),
		Holder: run.Config.Election.Identity(), CallTimeout: s.Timeout, Needed: journal.Required,
		SkipUnreadable: s.InProcess.SkipUnreadable, Events: run.Events,
	})
	if err := run.Manager.Add(j); err != nil {
		return nil, fmt.Errorf("journal of CreateSnapshot calls: %w", err)
	}
	return j, nil
}

// mayJournal reports whether the account may write the Lease of the journal.
func mayJournal(ctx context.Context, run *sidecar.Sidecar, namespace string) bool {
	var wanted []process.Permission
	for _, verb := range []string{"get", "create", "update"} {
		wanted = append(wanted, process.Permission{
			Namespace: namespace, Group: coordinationv1.GroupName, Resource: "leases", Verb: verb,
		})
	}
	missing, err := process.MissingPermissions(ctx, run.API, wanted)
	return err == nil && len(missing) == 0
}
