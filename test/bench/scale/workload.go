package scale

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/bench/planes"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

// bench is the flags, the driver and the results.
type bench struct {
	*runner.Run
	load

	scale               float64
	whole               bool
	claims, attachments int
	bursts              int
	settle              time.Duration
	json, profiles      string

	driver  *runner.Driver
	results results
}

// The accounts of the load and of the programs, with all permissions.
const (
	accountLoad     = "load"
	accountPrograms = "programs"
	accountWire     = "wire" // the programs, through the proxy
)

// Workload is the comparison of an empty cluster and a large one.
func Workload() runner.Workload {
	b := &bench{driver: runner.NewDriver(driverName, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)}
	return runner.Workload{
		Name: "scale", Summary: "start, memory, requests, rates and leader changes in an empty and in a large cluster",
		Flags: b.flags, Check: b.check, Cluster: b.components, Driver: func() scripted.Server { return b.driver },
		Prepare: b.prepare, Play: b.play, Report: b.report,
		Contenders: func() []runner.Contender { return planes.Contenders(accountPrograms, lease) },
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	const quarter, newClaims, newAttachments, bursts = 0.25, 1000, 500, 3
	set.Float64Var(&b.scale, "scale", quarter, "part of the whole size, which is "+whole.String())
	set.BoolVar(&b.whole, "whole", false, "the whole size, as -scale=1")
	set.IntVar(&b.claims, "claims", newClaims, "new claims at once")
	set.IntVar(&b.attachments, "attachments", newAttachments, "of these, claims whose volumes are attached at once")
	set.IntVar(&b.bursts, "bursts", bursts, "bursts, of which the median counts")
	set.DurationVar(&b.settle, "settle", 70*time.Second,
		"time from the first served claim until the memory counts as settled; unused memory is returned once a minute")
	set.StringVar(&b.json, "json", "", "`file` for the results as JSON")
	set.StringVar(
		&b.profiles, "profiles", "", "`folder` for profiles of Purser's processor time and heap, for go tool pprof",
	)
}

func (b *bench) check(runner.Options) error {
	if b.whole {
		b.scale = 1
	}
	if b.scale <= 0 || b.claims < 1 || b.attachments < 1 || b.attachments > b.claims || b.bursts < 1 {
		return fmt.Errorf("-scale=%v -claims=%d -attachments=%d -bursts=%d: all must be above 0, and no more "+
			"attachments than claims", b.scale, b.claims, b.attachments, b.bursts)
	}
	if b.profiles != "" {
		if is, err := os.Stat(b.profiles); err != nil || !is.IsDir() {
			return fmt.Errorf("-profiles=%s: is not a folder; make it first", b.profiles)
		}
	}
	return nil
}

// components leaves out the audit log, which the proxy replaces.
func (b *bench) components(config *cluster.Config) { config.Audit = false }

// lease is short, so that a run does not wait long for a leader that is dead.
var lease = planes.Lease{Duration: 6 * time.Second, Renew: 4 * time.Second, Retry: time.Second}

// prepare creates what both clusters have: accounts, the class, the driver, and the nodes of the new
// attachments.
func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := r.Administrators(ctx, accountLoad, accountPrograms); err != nil {
		return err
	}
	config, err := r.Config(accountLoad)
	if err != nil {
		return err
	}
	if b.api, err = client.New(config, client.Options{Scheme: r.API.Scheme()}); err != nil {
		return err
	}
	immediate := storagev1.VolumeBindingImmediate
	objects := []client.Object{
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName, VolumeBindingMode: &immediate,
		},
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)},
		},
	}
	for i := range newNodes {
		node := newNode(newNodeName(i))
		node.Labels[labelNew] = "true"
		objects = append(objects, node, newCSINode(node.Name))
	}
	if err := createNamespace(ctx, b.api, newNamespace); err != nil {
		return err
	}
	return r.Create(ctx, objects...)
}

// play measures each contender in the empty cluster, fills the cluster, and measures each again.
func (b *bench) play(ctx context.Context, _ *runner.Run) error {
	full := whole.scaled(b.scale)
	b.results = results{Size: full, Claims: b.claims, Attachments: b.attachments, Bursts: b.bursts}
	if err := b.measureAll(ctx, sizeEmpty); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "Writing %s ...\n", full)
	f, err := newFiller(b.Run, full)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f.fill(ctx); err != nil {
		return err
	}
	b.results.Fill = time.Since(began)
	return b.measureAll(ctx, sizeFull)
}

// The two clusters.
const (
	sizeEmpty = "empty"
	sizeFull  = "large"
)

func (b *bench) measureAll(ctx context.Context, at string) error {
	c := measured{Cluster: at}
	var err error
	if c.BareWrites, err = b.bare(ctx); err != nil {
		return fmt.Errorf("bare client: %w", err)
	}
	for _, one := range b.Contenders {
		fmt.Fprintf(os.Stderr, "%s, %s cluster ...\n", one.Name, at)
		figures, err := b.measure(ctx, one, at)
		if err != nil {
			return fmt.Errorf("%s, %s cluster: %w", one.Name, at, err)
		}
		c.Figures = append(c.Figures, figures)
	}
	if c.Servers, err = b.serversMemory(); err != nil {
		return err
	}
	b.results.Clusters = append(b.results.Clusters, c)
	return nil
}

// save writes a file of the folder for profiles.
func (b *bench) save(name string, content []byte) error {
	return os.WriteFile(filepath.Join(b.profiles, name), content, 0o600)
}
