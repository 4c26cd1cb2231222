package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/purser-csi/purser/internal/cluster"
	clusterprocess "github.com/purser-csi/purser/internal/cluster/process"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"

	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/ui"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/telemetry/tracing"
)

// upRun is one run of `up`: its parts, the order of their start, and their stop.
type upRun struct {
	*Up
	dir    string
	screen *screen
	began  time.Time

	binaries    cluster.Binaries
	kubelet     cluster.Binaries // with --kubelet
	cluster     *cluster.Cluster
	bootstrap   bootstrap.Setup
	driver      csirpc.Description
	place       bootstrap.Place      // of the nodes, as they were registered
	attachments *handoff.Attachments // between our attach-detach controller and attacher; nil with stock controllers
	parts       []*process.Part      // in the order of their start
	spans       *telemetry.Spans     // what the roles did last
	tracing     *tracing.Tracing     // of all roles; nil without a collector
	targets     targets              // of the metrics
	locks       csirpc.VolumeLocks   // of the volumes, shared by the roles that call the driver
	pages       *ui.Embedded         // with --ui
	degraded    bool                 // the provisioner has ended, as its journal cannot be read
}

// run starts everything, stays until ctx ends or a part fails, and ends everything.
func (h *upRun) run(ctx context.Context) (err error) {
	h.began = time.Now()
	if err := h.openDataDir(); err != nil {
		return err
	}
	if h.binaries, err = findPrograms(); err != nil {
		return err
	}
	if err := h.findKubelet(); err != nil {
		return err
	}
	lock, err := cluster.LockDir(h.dir)
	if err != nil {
		return fmt.Errorf("--data-dir=%s: %w", h.DataDir, err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := errors.Join(h.endContainers(ctx), h.clear()); err != nil {
		return err
	}
	ctx, closeLog, err := h.logToFile(ctx)
	if err != nil {
		return err
	}
	defer closeLog()
	var sent func()
	h.tracing, sent = process.StartTracing(ctx, "up", h.Version, process.TraceSettings{})
	defer sent()
	if err := h.targets.open(h.dir, h.HTTPEndpoint); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop(ctx)) }()
	if err := h.startOnScreen(ctx, lock); err != nil {
		return err
	}
	if err := h.targets.err(); err != nil {
		h.screen.say("  %s is not complete: %v", targetsName, err)
	}
	h.welcome()
	if h.pages != nil {
		h.pages.OpenBrowser(ctx, h.Out)
	}
	err = h.stay(ctx)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		h.screen.say(
			"  %s %s; stopping the rest",
			h.screen.paint(red, "✗"),
			reason,
		) // the reason is printed in full after everything has stopped
	}
	return err
}

// findPrograms looks where the user says, beside this program, and in the path.
func findPrograms() (cluster.Binaries, error) {
	return cluster.FindBinaries(clusterComponents.Programs(), programDirs()...)
}

// programDirs is the folder of this program.
func programDirs() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{filepath.Dir(self)}
}

var clusterComponents = cluster.Components{cluster.Scheduler, cluster.ControllerManager}

// logToFile sends the logs of all roles to one file; the terminal shows only the progress.
func (h *upRun) logToFile(ctx context.Context) (context.Context, func(), error) {
	path := h.logFile()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("logs: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("logs: %w", err)
	}
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(file)))
	klog.SetLogger(log)
	ctrllog.SetLogger(log)
	return logr.NewContext(ctx, log), func() { klog.ClearLogger(); _ = file.Close() }, nil
}

func (h *upRun) logFile() string { return filepath.Join(h.dir, "logs", "purser.log") }

// startOnScreen starts the parts, and shows what the start waits for.
func (h *upRun) startOnScreen(ctx context.Context, lock *cluster.Lock) error {
	ticking, stop := context.WithCancel(ctx)
	defer stop()
	defer h.screen.end()
	go h.screen.tick(ticking)
	return h.start(ctx, lock)
}

// start starts the parts in the order of their dependencies.
func (h *upRun) start(ctx context.Context, lock *cluster.Lock) error {
	h.screen.say("Starting a development cluster in %s", h.dir)
	if h.CSIAddress == "" {
		for _, lack := range lacking(os.Geteuid(), exec.LookPath, hasSysResource()) {
			h.screen.say("  %s", lack)
		}
	}
	endpoint := h.CSIAddress
	if endpoint == "" {
		if err := h.startDriver(ctx); err != nil {
			return err
		}
		endpoint = "unix://" + filepath.Join(h.dir, socketName)
	}
	where, err := h.meetDriver(ctx, endpoint)
	if err != nil {
		return err
	}
	h.driver = where.Driver
	if h.cluster, err = cluster.Start(ctx, cluster.Config{
		Dir: h.dir, Lock: lock, Binaries: h.binaries, Components: clusterComponents, Audit: h.Audit,
		Controllers: h.stockControllers(),
		// Without the gate the API server drops the namespace of a dataSourceRef, and the claim gets
		// an empty volume.
		ExtraArgs: map[cluster.Component][]string{
			cluster.APIServer: {fmt.Sprintf("--feature-gates=%s=true", provisioner.GateCrossNamespaceSource)},
		},
		Progress: func(s cluster.Step) { h.screen.step(s.Name, s.Took) },
		Waiting:  h.waiting,
	}); err != nil {
		return err
	}
	if h.bootstrap, err = bootstrap.New(h.cluster.RESTConfig()); err != nil {
		return err
	}
	resources := cluster.FindResources(programDirs()...)
	if err := h.cluster.Install(ctx, resources...); err != nil {
		return err
	}
	if err := h.bootstrap.InstallGrants(ctx); err != nil {
		return err
	}
	if err := h.createObjects(ctx, where); err != nil {
		return err
	}
	if err := h.startRoles(ctx, endpoint, resources); err != nil {
		return err
	}
	h.startLease(ctx)
	start := h.startNodes
	if h.WithKubelet {
		start = h.startKubelet
	}
	if err := start(ctx, endpoint); err != nil {
		return err
	}
	if err := h.startPages(ctx); err != nil {
		return err
	}
	return h.copyKubeconfig()
}

// startPages serves the pages of the cluster, if they are asked for.
func (h *upRun) startPages(ctx context.Context) (err error) {
	if !h.UI {
		return nil
	}
	if h.pages, err = ui.Embed(ctx, h.cluster.RESTConfig(), "purser up", h.spans); err != nil {
		return err
	}
	h.parts = append(h.parts, process.StartPart(ctx, "ui", h.pages.Run))
	return nil
}

// startRoles starts the roles for claims and volumes that the driver needs.
func (h *upRun) startRoles(ctx context.Context, endpoint string, resources []string) error {
	var queue *handoff.Queue // of the controllers, when they are ours
	if !h.Stock {
		queue, h.attachments = handoff.New(), handoff.NewAttachments()
	}
	if err := h.startProvisioner(ctx, endpoint, queue); err != nil {
		return err
	}
	if queue != nil {
		if err := h.startControllers(ctx, queue); err != nil {
			return err
		}
	}
	return h.startSidecars(ctx, endpoint, resources)
}

// stockControllers returns the controllers that kube-controller-manager runs: housekeeping and those of
// workloads. Purser's controllers run for claims and volumes.
func (h *upRun) stockControllers() []string {
	all := append(cluster.HousekeepingControllers(), cluster.WorkloadControllers()...)
	if h.Stock {
		all = append(all, cluster.VolumeControllers()...)
		if bootstrap.Attaches(h.driver) {
			all = append(all, controllers.NameAttachDetach)
		}
	}
	return all
}

// waiting says what the start waits for.
func (h *upRun) waiting(what string) { h.screen.waiting(what, time.Now()) }

func (h *upRun) createObjects(ctx context.Context, where bootstrap.Place) error {
	began := time.Now()
	h.waiting(h.describeNodes() + ", roles, StorageClass")
	for _, create := range []func() error{
		func() error { return errors.Join(h.bootstrap.ApplyRoles(ctx), h.bootstrap.ApplyDevelopment(ctx)) },
		func() error { return h.registerNodes(ctx, where) },
		func() error {
			return h.bootstrap.CreateClass(ctx, where.Driver, h.bindingMode())
		},
	} {
		if err := create(); err != nil {
			return err
		}
	}
	h.screen.step(
		fmt.Sprintf("%s, roles, default StorageClass %s", h.describeNodes(), bootstrap.DefaultClass),
		time.Since(began),
	)
	return nil
}

func (h *upRun) copyKubeconfig() error {
	if h.Kubeconfig == "" {
		return nil
	}
	content, err := os.ReadFile(h.cluster.Kubeconfig())
	if err == nil {
		err = clusterprocess.WritePrivateFile(
			h.Kubeconfig,
			append([]byte(kubeconfigMark), content...),
		) // an old file may be readable by others
	}
	if err != nil {
		return fmt.Errorf("--kubeconfig=%s: %w", h.Kubeconfig, err)
	}
	return nil
}

func (h *upRun) welcome() {
	kubeconfig := h.cluster.Kubeconfig()
	if h.Kubeconfig != "" {
		kubeconfig = h.Kubeconfig
	}
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		if self, err := os.Executable(); err == nil {
			kubectl = shell.Quote(filepath.Join(filepath.Dir(self), kubectl))
		}
	}
	h.screen.say(
		"\n%s in %.1f s. Try next, in another terminal:\n",
		h.screen.paint(bold, "Ready"),
		time.Since(h.began).Seconds(),
	)
	h.screen.say("  export KUBECONFIG=%s", shell.Quote(kubeconfig))
	h.screen.say("  %s get storageclass,csidriver,csinode", kubectl)
	h.screen.say("  %s apply -f examples/claim.yaml", kubectl)
	h.screen.say("  %s describe pvc logbook", kubectl)
	if h.pages != nil {
		h.screen.say("\nIts pages are at %s", h.pages.Address)
	}
	if !h.WithKubelet {
		h.screen.say(
			"\nThere is no kubelet: volumes of pods are mounted and pods are reported ready, but their containers do " +
				"not run (--kubelet runs them).",
		)
	}
	h.screen.say("\nLogs are in %s. Ctrl-C stops everything.\n", filepath.Dir(h.logFile()))
}

// stay shows the status until ctx ends or a part has ended by itself.
func (h *upRun) stay(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	lines, err := watchStatus(watching, h.cluster.RESTConfig(), h.driver.Name)
	if err != nil {
		return err
	}
	ended := make(chan error, len(h.parts))
	for _, p := range h.parts {
		go func() { <-p.Ended; ended <- p.Err() }()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.cluster.Done():
			return h.cluster.Err()
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			if h.goesOnWithout(err) {
				continue
			}
			return err
		case line := <-lines:
			h.screen.status(line)
		}
	}
}

// stopTime bounds the end of all parts together.
const stopTime = 30 * time.Second

// stop stops the parts in the reverse order of their start, so that a part ends before those that
// it needs.
func (h *upRun) stop(ctx context.Context) error {
	began := time.Now()
	h.screen.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var errs []error
	if h.cluster != nil && h.cluster.Err() != nil { // without the API server the parts would wait in vain
		errs = append(errs, h.cluster.Stop(ctx))
	}
	for _, p := range slices.Backward(h.parts) {
		errs = append(errs, p.Stop(ctx))
	}
	if _, err := h.unpublish(); err != nil {
		errs = append(errs, err)
	}
	if h.cluster != nil {
		errs = append(errs, h.cluster.Stop(ctx))
	}
	if h.cluster != nil && errors.Join(errs...) == nil {
		h.screen.step("stopped, nothing is left running or mounted", time.Since(began))
	}
	return errors.Join(errs...)
}
