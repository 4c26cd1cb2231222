package floor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

// bench has the sizes, and what all turns share.
type bench struct {
	*runner.Run
	sizes            struct{ volumes, idle, nodes, workers, pairs int }
	rows             string
	output, profiles string
	volatile         bool
	ends             *ends
	users            client.Client
	resting          watches // what is watched without a contender
	turns            map[string]int
	figures          []figure
	kept             []kept
}

// Workload is the table of floors.
func Workload() runner.Workload { return newBench().workload() }

func newBench() *bench { return &bench{ends: newEnds(), turns: map[string]int{}} }

func (b *bench) workload() runner.Workload {
	return runner.Workload{
		Name: "floor", Summary: "compare each operation with the fewest writes and a bare client that makes them",
		Rounds: 3, Timeout: 30 * time.Minute, Flags: b.flags, Check: b.check,
		Cluster: func(config *cluster.Config) { config.Durable = !b.volatile },
		Driver:  func() scripted.Server { return newDriver() },
		Prepare: b.prepare, Contenders: b.contenders, Play: b.play, Report: b.report,
	}
}

const (
	asText     = "text"
	asJSON     = "json"
	asMarkdown = "markdown"
)

func (b *bench) flags(set *flag.FlagSet) {
	set.StringVar(
		&b.rows, "rows", "", "`names` of the rows, separated by commas; empty for all: "+strings.Join(allRows(), ", "),
	)
	set.IntVar(&b.sizes.volumes, "volumes", 100, "volumes at once in each burst")
	set.IntVar(&b.sizes.idle, "idle", 5, "single operations before each burst, one after the other")
	set.IntVar(&b.sizes.nodes, "nodes", 10, "virtual nodes that volumes are attached to")
	set.IntVar(&b.sizes.workers, "workers", 32,
		"requests in flight of the users, writes in flight of the bare client, and workers of each program")
	set.IntVar(&b.sizes.pairs, "pairs", 2000, "bound claims with volumes, for the memory; 0 to leave it out")
	set.StringVar(&b.output, "o", asText, "`format` of the result: text, markdown, or json")
	set.StringVar(&b.profiles, "profiles", "",
		"`folder` for profiles of the processor in each burst, of the API server and of our programs, for go tool "+
			"pprof")
	set.BoolVar(&b.volatile, "volatile", false,
		"etcd does not wait for the disk, as it does in every cluster whose data is to last")
}

func allRows() (all []string) {
	for _, o := range operations() {
		all = append(all, o.name)
	}
	return append(all, rowMemory)
}

// rowMemory is the table of memory.
const rowMemory = "memory"

func (b *bench) check(runner.Options) error {
	var mistakes []error
	for name, n := range map[string]int{
		"volumes": b.sizes.volumes, "idle": b.sizes.idle, "nodes": b.sizes.nodes, "workers": b.sizes.workers,
	} {
		if n < 1 {
			mistakes = append(mistakes, fmt.Errorf("-%s=%d: must be at least 1", name, n))
		}
	}
	if b.sizes.pairs < 0 {
		mistakes = append(mistakes, fmt.Errorf("-pairs=%d: must not be negative", b.sizes.pairs))
	}
	for row := range strings.SplitSeq(b.rows, ",") {
		if row != "" && !slices.Contains(allRows(), row) {
			mistakes = append(mistakes, fmt.Errorf(
				"-rows=%s: there is no row %q, but %s", b.rows, row, strings.Join(allRows(), ", "),
			))
		}
	}
	if !slices.Contains([]string{asText, asJSON, asMarkdown}, b.output) {
		mistakes = append(mistakes, fmt.Errorf("-o=%s: must be text, markdown or json", b.output))
	}
	if b.profiles != "" {
		if is, err := os.Stat(b.profiles); err != nil || !is.IsDir() {
			mistakes = append(mistakes, fmt.Errorf("-profiles=%s: is not a folder; make it first", b.profiles))
		}
	}
	return errors.Join(mistakes...)
}

// selects reports whether a row is measured.
func (b *bench) selects(row string) bool {
	return b.rows == "" || slices.Contains(strings.Split(b.rows, ","), row)
}

// prepare creates accounts, classes and nodes, and starts to observe.
func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := r.Install(ctx); err != nil {
		return err
	}
	if err := accounts(ctx, r); err != nil {
		return err
	}
	config, err := r.Config(accountUsers)
	if err != nil {
		return err
	}
	if b.users, err = client.New(config, client.Options{Scheme: r.API.Scheme()}); err != nil {
		return err
	}
	if err := r.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	if err := r.Create(ctx, b.objects()...); err != nil {
		return err
	}
	for i := range b.sizes.nodes {
		node := &corev1.Node{}
		if err := r.API.Get(ctx, client.ObjectKey{Name: nodeName(i)}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := r.API.Status().Update(ctx, node); err != nil {
			return err
		}
	}
	if err := b.ends.follow(ctx, r); err != nil {
		return err
	}
	b.resting, err = b.watched(ctx)
	return err
}

func (b *bench) objects() []client.Object {
	meta, immediate := metav1.ObjectMeta{Name: className}, storagev1.VolumeBindingImmediate
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}, // of the pods
		&storagev1.StorageClass{
			ObjectMeta: meta, Provisioner: driverName, VolumeBindingMode: &immediate, AllowVolumeExpansion: new(true),
		},
		&storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: modified}, DriverName: driverName,
			Parameters: map[string]string{"iops": "2"},
		},
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: meta, Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)},
		},
	}
	for i := range b.sizes.nodes {
		node := metav1.ObjectMeta{Name: nodeName(i)}
		objects = append(objects,
			&storagev1.CSINode{ObjectMeta: node, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: node.Name}},
			}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: node.Name, Annotations: map[string]string{names.AnnManagedAttach: "true"},
			}})
	}
	return objects
}

// driver answers at once.
type driver struct{ *runner.Driver }

func newDriver() driver {
	return driver{runner.NewDriver(driverName,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT)}
}

// ControllerPublishVolume implements csi.ControllerServer.
func (driver) ControllerPublishVolume(
	context.Context, *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	return &csi.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume implements csi.ControllerServer.
func (driver) ControllerUnpublishVolume(
	context.Context, *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerModifyVolume implements csi.ControllerServer.
func (driver) ControllerModifyVolume(
	context.Context, *csi.ControllerModifyVolumeRequest,
) (*csi.ControllerModifyVolumeResponse, error) {
	return &csi.ControllerModifyVolumeResponse{}, nil
}
