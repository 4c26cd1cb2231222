package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/populate/httpsource"
	"github.com/purser-csi/purser/internal/roles/populator"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// populating is a cluster with the binder, the provisioner and the populator, each with the permissions that
// it ships with.
type populating struct {
	liveCluster
	log *rolestest.Log
	url string       // of the data
	up  *atomic.Bool // the server of the data answers
}

func newPopulating(t *testing.T) populating {
	t.Helper()
	c := populating{liveCluster: newLiveCluster(t), log: &rolestest.Log{}, up: &atomic.Bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !c.up.Load() {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "the data")
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/f"
	socket, _ := rolestest.LiveDriver(t)
	binder, _, _ := c.controllers()
	provisioner, _ := liveProvisioner(t, c.as("csi-provisioner"), socket, "--leader-election-namespace=purser-system")
	rolestest.InBackground(t, binder.Run)
	rolestest.InBackground(t, provisioner.Run)
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "populator-http.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	role := populator.New()
	role.Version, role.API, role.Log = "test", c.as(populator.Name), c.log.Logger()
	c.begin(role, &role.Started, append(
		slices.Clone(quickly), "--image-name=purser", "--namespace=purser-system", "--pod-retry-start=1ms",
	))
	if err := c.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil { // the role waits for it
		t.Fatal(err)
	}
	c.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: "default"}})
	c.create(&storagev1.StorageClass{ObjectMeta: metav1Name("deck"), Provisioner: driver.DefaultName})
	return c
}

func (c populating) source(name string) {
	c.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"url": c.url, "fileName": "f"}}}
	o.SetGroupVersionKind(httpsource.Kind)
	o.SetNamespace("default")
	o.SetName(name)
	rolestest.Eventually(c.T, "the custom resource is served", func() error { return c.user.Create(c.Context(), o) })
}

// sourcedBy creates a claim with a source.
func (c populating) sourcedBy(name, source string) *corev1.PersistentVolumeClaim {
	c.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.StorageClassName = new("deck")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{
		APIGroup: new(httpsource.Kind.Group), Kind: httpsource.Kind.Kind, Name: source,
	}
	c.create(claim)
	return claim
}

// pod waits for the pod of a claim that has not ended, other than one with a uid.
func (c populating) pod(claim *corev1.PersistentVolumeClaim, not *corev1.Pod) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: process.SystemNamespace, Name: "populate-" + string(claim.UID),
	}}
	await(c.liveCluster, "the pod", pod, func(pod *corev1.Pod) bool { return not == nil || pod.UID != not.UID })
	return pod
}

// play does what a kubelet does with a pod: it runs the command, in this process and in a folder of the test,
// and writes the end of the container into the status.
func (c populating) play(pod *corev1.Pod, folder string) error {
	c.Helper()
	container := pod.Spec.Containers[0]
	if len(container.Args) < 3 || container.Args[0] != "populate" || container.Args[1] != "http" {
		c.Fatalf("the pod runs %q", container.Args)
	}
	fill, flags := &populator.Filler{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	fill.AddFlags(flags)
	if err := errors.Join(flags.Parse(container.Args[2:]), fill.Validate()); err != nil {
		c.Fatal(err)
	}
	fill.Config.Target.Path, fill.Config.ProgressAddress = folder, "127.0.0.1:0"
	fill.Config.TerminationLog, fill.Source.AllowLocal = filepath.Join(c.TempDir(), "log"), true
	fill.Source.Pause = func(ctx context.Context, _ int) error { return ctx.Err() }
	ran := fill.Run(c.Context())
	message, err := os.ReadFile(fill.Config.TerminationLog)
	if err != nil {
		c.Fatal(err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if ran != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), Message: string(message)},
	}}}
	if err := c.user.Status().Update(c.Context(), pod); err != nil {
		c.Fatal(err)
	}
	return ran
}

// nothingLeft returns an error while an object of the populator is there.
func (c populating) nothingLeft() error {
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	in := client.InNamespace(process.SystemNamespace)
	if err := errors.Join(c.user.List(c.Context(), &claims, in), c.user.List(c.Context(), &pods, in)); err != nil {
		return err
	}
	if len(claims.Items) > 0 || len(pods.Items) > 0 {
		return fmt.Errorf("%d claims and %d pods are left", len(claims.Items), len(pods.Items))
	}
	return nil
}

// event returns nil if the claim has an event of the populator.
func (c populating) event(claim *corev1.PersistentVolumeClaim, reason string) error {
	var events corev1.EventList
	if err := c.user.List(c.Context(), &events, client.InNamespace(claim.Namespace)); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == claim.UID && e.Reason == reason &&
			e.Source.Component == httpsource.Prefix+"-populator" {
			return nil
		}
	}
	return fmt.Errorf("no event %s among %d", reason, len(events.Items))
}

// VP-8 to VP-16 with a real API server, the binder and the provisioner: the prime claim gets the volume, a pod
// writes the data, at its second attempt, the volume goes to the claim of the user, and nothing is left.
func TestPopulator(t *testing.T) {
	t.Parallel()
	c := newPopulating(t)
	claim := c.sourcedBy("data", "later")
	rolestest.Eventually(
		t, "the source is missing", func() error { return c.event(claim, "PopulatorDataSourceNotFound") },
	)
	c.source("later")
	first, folder := c.pod(claim, nil), t.TempDir()
	if err := c.play(first, folder); err == nil {
		t.Error("the pod of a server without the file succeeded")
	}
	rolestest.Eventually(t, "the failure is said", func() error { return c.event(claim, "PopulatorFailed") })
	c.up.Store(true)
	if err := c.play(c.pod(claim, first), folder); err != nil {
		t.Fatal(err)
	}
	await(c.liveCluster, "the claim is bound", claim, isBound)
	rolestest.Eventually(t, "nothing is left", c.nothingLeft)
	await(c.liveCluster, "the finalizer is removed", claim, func(claim *corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(claim.Finalizers, httpsource.Prefix+"/populate-target-protection")
	})
	if got, err := os.ReadFile(filepath.Join(folder, "f")); err != nil || string(got) != "the data" {
		t.Errorf("the volume has %q, %v", got, err)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
	await(c.liveCluster, "the volume is bound and says where its data is from", pv,
		func(pv *corev1.PersistentVolume) bool {
			return pv.Status.Phase == corev1.VolumeBound && pv.Spec.ClaimRef.UID == claim.UID &&
				pv.Annotations[httpsource.Prefix+"/populated-from"] == "default/later"
		})
	for _, reason := range []string{"PopulatorCreated", "PopulatorFinished"} {
		rolestest.Eventually(t, reason, func() error { return c.event(claim, reason) })
	}
	c.remove(claim)
	rolestest.Eventually(t, "the volume is deleted with its claim", func() error { return c.gone(pv) })
	c.permitted()
}

// VP-12: a claim that is deleted while its pod runs leaves nothing.
func TestPopulatorOfDeletedClaim(t *testing.T) {
	t.Parallel()
	c := newPopulating(t)
	c.source("s")
	claim := c.sourcedBy("data", "s")
	c.pod(claim, nil)
	c.remove(claim)
	rolestest.Eventually(t, "nothing is left", c.nothingLeft)
	rolestest.Eventually(t, "no volume is left", func() error {
		var volumes corev1.PersistentVolumeList
		if err := c.user.List(t.Context(), &volumes); err != nil || len(volumes.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d volumes", len(volumes.Items))
	})
	c.permitted()
}

// permitted fails if the populator needed a permission that it does not have.
func (c populating) permitted() {
	c.Helper()
	for _, line := range c.log.Lines() {
		if strings.Contains(line, "permission") || strings.Contains(line, "forbidden") {
			c.Errorf("the shipped role lacks something: %s", line)
		}
	}
	if asked := c.asked(0, c.mark(), populator.Name); asked.Answered(401, 403) > 0 {
		c.Errorf("requests were forbidden: %v", asked)
	}
}
