package snapshot

import (
	"context"
	"flag"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "snapshot.example"
	class      = "bench" // of claims and of snapshots
)

// The accounts of the programs.
const (
	accountController  = "snapshot-controller"
	accountSidecar     = "csi-snapshotter"
	accountProvisioner = "csi-provisioner"
	accountBinder      = "controllers"
)

// bench has the number of snapshots.
type bench struct {
	*runner.Run
	snapshots int
}

// Workload is the life of snapshots.
func Workload() runner.Workload {
	b := &bench{}
	return runner.Workload{
		Name: "snapshot", Summary: "take, restore and delete snapshots at once, ours and upstream's halves", Rounds: 3,
		Flags: func(set *flag.FlagSet) {
			set.IntVar(&b.snapshots, "snapshots", 200, "snapshots at once, and restores of them")
		},
		Driver: func() scripted.Server {
			return runner.NewDriver(driverName, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
				csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)
		},
		Prepare: b.prepare, Contenders: combinations, Measure: b.measure,
	}
}

// prepare installs the kinds of snapshots, and creates accounts, classes and the bound claims that
// snapshots are taken of. kube-controller-manager reads more than its controllers need, so the binder
// is an administrator.
func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := r.Install(ctx); err != nil {
		return err
	}
	if err := r.Roles(ctx, accountController, accountSidecar, accountProvisioner); err != nil {
		return err
	}
	if err := r.Administrators(ctx, accountBinder); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: class}
	err := r.Create(ctx,
		&storagev1.StorageClass{ObjectMeta: meta, Provisioner: driverName},
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: meta, Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		})
	if err != nil {
		return err
	}
	var handles []string
	for i := range b.snapshots {
		handles = append(handles, name("source", i))
	}
	return r.Pairs(ctx, driverName, class, handles)
}

func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

var (
	lifted  = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}
	workers = []string{"--worker-threads=100"}
	// binding are the controllers that restored claims need, in both programs.
	binding = "--controllers=persistentvolume-binder-controller,persistentvolume-protection-controller," +
		"persistentvolumeclaim-protection-controller"
)

func half(ours bool, role string, socket bool) runner.Program {
	p := runner.Program{
		Name: "upstream-" + role, Account: role, Socket: socket, Args: append(slices.Clone(lifted), workers...),
	}
	if ours {
		p.Name, p.Args = "purser", append([]string{role}, workers...)
	}
	return p
}

// combine returns the two halves, a provisioner and a binder.
func combine(name string, controller, sidecar, rest bool) runner.Contender {
	binder := runner.Program{
		Name: "kube-controller-manager", Account: accountBinder,
		Args: append([]string{"--leader-elect=false", "--secure-port=0", binding}, lifted...),
	}
	if rest {
		binder = runner.Program{Name: "purser", Account: accountBinder, Args: []string{"controllers", binding}}
	}
	return runner.Contender{Name: name, Programs: []runner.Program{
		half(controller, accountController, false), half(sidecar, accountSidecar, true),
		half(rest, accountProvisioner, true), binder,
	}}
}

func combinations() []runner.Contender {
	upstream := combine("upstream's, limits lifted", false, false, false)
	upstream.Baseline = true
	return []runner.Contender{
		combine("ours", true, true, true),
		combine("our snapshot-controller, upstream's csi-snapshotter", true, false, true),
		combine("upstream's snapshot-controller, our csi-snapshotter", false, true, true),
		upstream,
	}
}
