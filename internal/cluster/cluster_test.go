package cluster

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const repositoryBin = "../../bin"

// realConfig is a configuration with the real programs.
func realConfig(t *testing.T, optional ...Component) Config {
	t.Helper()
	binaries, err := FindBinaries(Components(optional).Programs(), repositoryBin)
	if err != nil {
		t.Skip(err)
	}
	return Config{Dir: t.TempDir(), Binaries: binaries, Components: optional}
}

func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	began := time.Now()
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a wanted end is reported as an error: %v", err)
	}
	mustBeFree(t, c.plan.cfg.Dir)
}

func client(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWholeCluster starts all components, checks the work of each, and finds the data again after a
// restart.
func TestWholeCluster(t *testing.T) {
	cfg := realConfig(t, Scheduler, ControllerManager)
	cfg.Audit = true
	cfg.Progress = func(s Step) { t.Logf("%s: %s", s.Name, s.Took.Round(time.Millisecond)) }
	c := start(t, cfg)
	kube := client(t, c.RESTConfig())
	kept := &corev1.ConfigMap{ObjectMeta: named("kept")}
	must(t)(kube.CoreV1().ConfigMaps("default").Create(t.Context(), kept, metav1.CreateOptions{}))
	t.Run("access", func(t *testing.T) { testAccess(t, c) })
	t.Run("volume binder and scheduler", func(t *testing.T) { testBinderAndScheduler(t, kube) })
	t.Run("namespaces", func(t *testing.T) { testNamespaces(t, kube) })
	t.Run("storage roles", func(t *testing.T) {
		must(t)(kube.RbacV1().ClusterRoles().Get(t.Context(), "system:volume-scheduler", metav1.GetOptions{}))
	})
	t.Run("a second one", func(t *testing.T) {
		if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "in use by process") {
			t.Errorf("error = %v", err)
		}
	})
	host := c.RESTConfig().Host
	stop(t, c)
	stop(t, c) // idempotent
	audit, err := os.ReadFile(c.AuditLog())
	if err != nil || !strings.Contains(string(audit), `"username":"system:kube-scheduler"`) {
		t.Errorf("the audit log lacks the scheduler's requests (%v)", err)
	}

	c = start(t, cfg)
	if c.RESTConfig().Host != host {
		t.Errorf("the address changed from %s to %s: kubeconfigs are void", host, c.RESTConfig().Host)
	}
	// With the first run's client: its certificate is still good.
	must(t)(kube.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}))
	must(t)(kube.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "claim", metav1.GetOptions{}))
	if previous, err := os.ReadFile(c.AuditLog() + ".1"); err != nil || !bytes.Equal(previous, audit) {
		t.Errorf("the first run's audit log was not set aside: %v", err)
	}
	stop(t, c)
}

// testAccess: the administrator's file is private, and requests without it are refused.
func testAccess(t *testing.T, c *Cluster) {
	if info, err := os.Stat(c.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v %v", info.Mode(), err)
	}
	stranger := rest.AnonymousClientConfig(c.RESTConfig())
	_, err := client(t, stranger).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("without a certificate: %v, want unauthorized", err)
	}
	transport, err := rest.TransportFor(stranger)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.plan.etcdURL()+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := transport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("etcd answers without a certificate: %s", resp.Status)
	}
}

// testBinderAndScheduler: a pod waits for a claim that waits for the pod.
func testBinderAndScheduler(t *testing.T, kube *kubernetes.Clientset) {
	ctx, wait, class := t.Context(), storagev1.VolumeBindingWaitForFirstConsumer, "local"
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	room := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	must(t)(kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: named("node"), Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}, metav1.CreateOptions{}))
	must(t)(kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: named(class), Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
	}, metav1.CreateOptions{}))
	must(t)(kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: named("volume"),
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, StorageClassName: class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		},
	}, metav1.CreateOptions{}))
	must(t)(kube.CoreV1().PersistentVolumeClaims("default").Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: named("claim"),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: once, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))
	pod := &corev1.Pod{ObjectMeta: named("pod"), Spec: podSpec()}
	must(t)(kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
	eventually(t, func() bool {
		claim, err1 := kube.CoreV1().PersistentVolumeClaims("default").Get(ctx, "claim", metav1.GetOptions{})
		pod, err2 := kube.CoreV1().Pods("default").Get(ctx, "pod", metav1.GetOptions{})
		return err1 == nil && err2 == nil && claim.Status.Phase == corev1.ClaimBound && pod.Spec.NodeName == "node"
	})
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "none"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
		}}},
		// Without a kubelet the node stays as admission made it: not ready.
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
}

func testNamespaces(t *testing.T, kube *kubernetes.Clientset) {
	namespace := &corev1.Namespace{ObjectMeta: named("other")}
	must(t)(kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}))
	eventually(t, func() bool {
		_, err1 := kube.CoreV1().ServiceAccounts("other").Get(t.Context(), "default", metav1.GetOptions{})
		_, err2 := kube.CoreV1().ConfigMaps("other").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err1 == nil && err2 == nil
	})
}

func TestComponentThatDies(t *testing.T) {
	c := start(t, realConfig(t))
	if err := c.Err(); err != nil {
		t.Fatalf("error before anything went wrong: %v", err)
	}
	if err := syscall.Kill(c.crew.started()[0].PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "etcd ended: signal: killed") {
		t.Errorf("error = %v, want one that names etcd and its end", err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Errorf("the rest had to be killed, which is no news: %v", err)
	}
	mustBeFree(t, c.plan.cfg.Dir)
}

// TestKilledParent: after SIGKILL of the parent no process of the cluster is left, and the next
// start works.
func TestKilledParent(t *testing.T) {
	cfg := realConfig(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], parentRole, cfg.Dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	host, err := bufio.NewReader(out).ReadString('\n')
	if host = strings.TrimSpace(host); err != nil || !strings.HasPrefix(host, "https://") {
		t.Fatalf("the parent did not start a cluster: %q, %v", host, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // says that it was killed

	c := start(t, cfg)
	if c.RESTConfig().Host != host {
		t.Errorf("the address changed from %s to %s: something still had the port", host, c.RESTConfig().Host)
	}
	stop(t, c)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// must fails the test on the error of a call whose object is not used.
func must(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}
