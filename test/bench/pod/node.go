package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
	clusterprocess "github.com/purser-csi/purser/internal/cluster/process"
	"github.com/purser-csi/purser/internal/mount"
	roledriver "github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/containers"
)

// NodeGetInfo implements csi.NodeServer.
func (driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: nodeName}, nil
}

// NodeGetCapabilities implements csi.NodeServer: nothing is staged.
func (driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume implements csi.NodeServer.
func (driver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	return &csi.NodePublishVolumeResponse{}, os.MkdirAll(r.GetTargetPath(), 0o750)
}

// NodeUnpublishVolume implements csi.NodeServer.
func (driver) NodeUnpublishVolume(
	_ context.Context, r *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	err := os.Remove(r.GetTargetPath())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return &csi.NodeUnpublishVolumeResponse{}, err
}

// node is a kubelet with containerd, and the registration of the driver.
type node struct {
	root       string // of the kubelet
	containers string // of containerd
	runtime    *kubelet.Runtime
	kubelet    *clusterprocess.Process
	end        context.CancelFunc // of the registration
}

// startNode starts a node and returns when the driver is registered. The error says what is missing on
// the machine.
func startNode(ctx context.Context, r *runner.Run) (n *node, err error) {
	binaries, err := kubelet.FindPrograms(r.Bin)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.Dir, "r")
	n = &node{root: filepath.Join(r.Dir, "k"), containers: dir, end: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.stop())
		}
	}()
	if n.runtime, err = kubelet.StartRuntime(ctx, kubelet.RuntimeConfig{
		Dir: dir, LogDir: r.Dir, Binaries: binaries, Sandbox: containers.Name,
	}); err != nil {
		return n, err
	}
	archive, err := containers.Image(dir)
	if err != nil {
		return n, err
	}
	if err := n.runtime.Import(ctx, archive); err != nil {
		return n, err
	}
	if n.kubelet, err = kubelet.Start(kubelet.Config{
		Dir: filepath.Join(r.Dir, "kc"), Root: n.root, LogDir: r.Dir, Binaries: binaries,
		Kubeconfig: r.Cluster.Kubeconfig(), NodeName: nodeName, Runtime: n.runtime.Socket(),
	}); err != nil {
		return n, err
	}
	return n, n.register(ctx, r)
}

// register registers the driver with the kubelet and waits until the CSINode names it.
func (n *node) register(ctx context.Context, r *runner.Run) error {
	registry := filepath.Join(n.root, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	server, err := roledriver.NewRegistration(roledriver.Config{Dir: registry, Name: driverName, Socket: r.Socket()})
	if err != nil {
		return err
	}
	var whole context.Context
	whole, n.end = context.WithCancel(ctx)
	go func() { _ = server.Run(whole) }() // ends with the node
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = runner.Until(wait, 1, func(ctx context.Context) (int, error) {
		node := &storagev1.CSINode{}
		if r.API.Get(ctx, types.NamespacedName{Name: nodeName}, node) != nil {
			return 0, nil // not yet
		}
		return len(node.Spec.Drivers), n.failed()
	})
	if err != nil {
		return fmt.Errorf("the kubelet has not registered the driver: %w", err)
	}
	return nil
}

// failed returns how the kubelet has ended; nil while it runs.
func (n *node) failed() error {
	if exit := n.kubelet.Exit(); exit != nil {
		return exit
	}
	return nil
}

const stopTime = 30 * time.Second

func (n *node) stop() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	n.end()
	if n.kubelet != nil {
		err = n.kubelet.Stop(ctx)
	}
	if n.runtime != nil {
		err = errors.Join(err, n.runtime.Stop(ctx))
	}
	_ = syscall.Unmount(n.root, 0)            // a kubelet makes its root directory a shared mount
	_, left := mount.CleanBelow(n.containers) // of a pod that was being deleted
	return errors.Join(err, left)
}

// newPod returns a pod that runs until it is deleted, also on a node that is not ready for want of a network
// plugin.
func newPod(name types.NamespacedName) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: corev1.PodSpec{
			HostNetwork: true, AutomountServiceAccountToken: new(false),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "c", Image: containers.Name, ImagePullPolicy: corev1.PullNever, Args: []string{"wait"},
			}},
		},
	}
}

// use gives a pod the volume of a claim.
func use(pod *corev1.Pod, claim string) {
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
}

// observe records when pods run and are gone, and when claims are bound.
func (b *bench) observe(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "default"}}
	if err := b.Create(ctx, account); err != nil {
		return err
	}
	_, err := runner.Observe(ctx, b.Cache, &corev1.Pod{}, func(pod *corev1.Pod) {
		if pod.Status.Phase == corev1.PodRunning {
			b.running.Add(pod.Name)
		}
	}, func(pod *corev1.Pod) { b.gone.Add(pod.Name) })
	if err != nil {
		return err
	}
	_, err = runner.Observe(ctx, b.Cache, &corev1.PersistentVolumeClaim{}, func(claim *corev1.PersistentVolumeClaim) {
		if claim.Status.Phase == corev1.ClaimBound {
			b.bound.Add(claim.Name)
		}
	}, nil)
	return err
}
