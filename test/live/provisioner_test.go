package live

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// A leader, a standby, a volume, and an orderly end, as an operator sees them: ST-12, ST-14, ST-15,
// LK-1, LK-2, HT-1 to HT-3, ME-1 to ME-7, EV-1 and EV-5.
func TestProvisionerProcess(t *testing.T) {
	api := rolestest.LiveCluster(t)
	socket, _ := rolestest.LiveDriver(t)
	user, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	first, firstAt := liveProvisioner(t, api, socket, "--leader-election-labels=team:storage", "--enable-pprof",
		"--delete-timeout=1m", "--driver-metadata=label:app", "--volume-metadata=label:app")
	endFirst := rolestest.InBackground(t, first.Run)
	rolestest.Eventually(t, "a leader", func() error { return holds(t, user, first.Election.Identity()) })
	rolestest.Eventually(t, "the leader is ready", func() error { return ok(t, firstAt()+"/readyz") })

	second, secondAt := liveProvisioner(t, api, socket)
	rolestest.InBackground(t, second.Run)
	rolestest.Eventually(t, "the standby is ready before it leads", func() error { return ok(t, secondAt()+"/readyz") })
	rolestest.Eventually(t, "health of the standby", func() error { return ok(t, secondAt()+"/healthz/leader-election") })
	if err := holds(t, user, first.Election.Identity()); err != nil {
		t.Fatal(err)
	}

	pv := claimVolume(t, user, "logbook")
	if pv.Labels["app"] != "logbook" {
		t.Errorf("U-52: labels %v", pv.Labels)
	}
	if err := leaves(t, user, time.Minute); err != nil {
		t.Errorf("U-29: %v", err)
	}
	mishaps(t, user)
	rolestest.Eventually(t, "the mishaps are counted", func() error {
		seen := scrape(t, firstAt()+"/metrics")
		for _, name := range []string{"controller_persistentvolumeclaim_provision_failed_total", "controller_persistentvolume_delete_failed_total", "controller_persistentvolume_delete_total"} {
			if value(seen[name]) == 0 {
				return fmt.Errorf("%s is 0", name)
			}
		}
		return nil
	})
	metrics := scrape(t, firstAt()+"/metrics")
	compareMetrics(t, metrics, "metrics.txt")
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "promhttp_metric_handler_requests_total"} {
		if metrics[name] == nil {
			t.Errorf("ME-8: no %s", name)
		}
	}
	rolestest.Eventually(t, "EV-9 the lease tells of its leader", func() error { return mentionsLeader(t, user, first.Election.Identity()) })
	mustTellOnce(t, user, "logbook", "Provisioning", "ProvisioningSucceeded")
	if err := ok(t, firstAt()+"/debug/pprof/"); err != nil {
		t.Error(err)
	}
	// ST-14: the informers of the standby run, and its work queue has had the claim.
	rolestest.Eventually(t, "the standby has seen both claims", func() error { // its cache may be behind the leader's
		warm := scrape(t, secondAt()+"/metrics")
		got := warm["purser_oldest_pending_claim_seconds"].GetMetric()
		if len(got) != 1 || got[0].GetLabel()[0].GetValue() != "nowhere" {
			return fmt.Errorf(
				"pending: %v; want the class without an object, and not that of a claim that has its volume", got,
			)
		}
		if value(warm["workqueue_adds_total"]) == 0 {
			return errors.New("the standby's queues are empty")
		}
		return nil
	})

	endFirst()
	if err := holds(t, user, ""); err != nil {
		rolestest.Eventually(t, "the lease goes to the standby at once", func() error { return holds(t, user, second.Election.Identity()) })
	}
	claimVolume(t, user, "second-logbook")
}

// mentionsLeader looks for client-go's event about the lease (EV-9).
func mentionsLeader(t *testing.T, user client.Client, identity string) error {
	t.Helper()
	var events corev1.EventList
	if err := user.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Lease" && e.Reason == "LeaderElection" && e.Message == identity+" became leader" {
			return nil
		}
	}
	return fmt.Errorf("none of %d events", len(events.Items))
}

// holds returns an error unless the lease has this holder. The holder of a released lease is empty.
func holds(t *testing.T, user client.Client, holder string) error {
	t.Helper()
	return holdsLease(t, user, client.ObjectKey{Namespace: "default", Name: process.DriverLeaseName(driver.DefaultName)}, holder)
}

func holdsLease(t *testing.T, user client.Client, name client.ObjectKey, holder string) error {
	t.Helper()
	var lease coordinationv1.Lease
	if err := user.Get(t.Context(), name, &lease); err != nil {
		return err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != holder {
		return fmt.Errorf("held by %v, want %q", lease.Spec.HolderIdentity, holder)
	}
	return nil
}

// claimVolume does what a user and the PV controller do, and waits for the volume.
func claimVolume(t *testing.T, user client.Client, name string) *corev1.PersistentVolume {
	t.Helper()
	pv := &corev1.PersistentVolume{}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "deck"}, Provisioner: driver.DefaultName}
	if err := user.Create(t.Context(), class); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": name},
			Annotations: map[string]string{names.AnnStorageProvisioner: driver.DefaultName},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("deck"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
	if err := user.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "a volume", func() error {
		if err := user.Get(t.Context(), client.ObjectKey{Name: "pvc-" + string(claim.UID)}, pv); err != nil {
			return err
		}
		claim.Spec.VolumeName = pv.Name // what the PV controller does next
		return user.Update(t.Context(), claim)
	})
	return pv
}

// leaves returns an error unless the journal says that a new leader has to wait this long for calls
// of the previous one.
func leaves(t *testing.T, user client.Client, want time.Duration) error {
	t.Helper()
	var page coordinationv1.Lease
	if err := user.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "purser-intents-" + process.DriverLeaseName(driver.DefaultName)}, &page); err != nil {
		return err
	}
	if seconds := page.Spec.LeaseDurationSeconds; seconds == nil || time.Duration(*seconds)*time.Second != want {
		return fmt.Errorf("calls may go on for %v seconds, want %s", seconds, want)
	}
	return nil
}

// mishaps creates a claim whose class does not exist, a volume that is deleted, and a volume that
// cannot be deleted.
func mishaps(t *testing.T, user client.Client) {
	t.Helper()
	adrift := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "adrift", Annotations: map[string]string{names.AnnStorageProvisioner: driver.DefaultName},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("nowhere"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
	if err := user.Create(t.Context(), adrift); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]corev1.PersistentVolumeSource{
		"gone":  {CSI: &corev1.CSIPersistentVolumeSource{Driver: driver.DefaultName, VolumeHandle: "gone"}},
		"stuck": {HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
	} {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnProvisionedBy: driver.DefaultName}},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: source, StorageClassName: "deck", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: "long-gone"},
			},
		}
		if err := user.Create(t.Context(), pv); err != nil {
			t.Fatal(err)
		}
		before := pv.DeepCopy()
		pv.Status.Phase = corev1.VolumeReleased
		if err := user.Status().Patch(t.Context(), pv, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

func ok(t *testing.T, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return nil
}

func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func value(family *dto.MetricFamily) float64 {
	sum := 0.0
	for _, m := range family.GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

var update = flag.Bool("update", false, "write the files of metrics instead of comparing them")

// compareMetrics compares names, labels and buckets of the metrics with upstream's, in a file of
// testdata.
func compareMetrics(t *testing.T, families map[string]*dto.MetricFamily, file string) {
	t.Helper()
	var got bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(families)) {
		prefix, _, _ := strings.Cut(name, "_")
		if !slices.Contains([]string{"controller", "csi", "ephemeral", "leader", "purser", "pv", "retroactive", "volume", "workqueue"}, prefix) || strings.HasPrefix(name, "controller_runtime_") {
			continue
		}
		one := families[name].GetMetric()[0]
		var labels, buckets []string
		for _, label := range one.GetLabel() {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		for _, bucket := range one.GetHistogram().GetBucket() {
			buckets = append(buckets, fmt.Sprint(bucket.GetUpperBound()))
		}
		kind := strings.ToLower(families[name].GetType().String())
		fmt.Fprintln(&got, strings.TrimRight(fmt.Sprintf("%s %s{%s} %s", kind, name, strings.Join(labels, ","), strings.Join(buckets, " ")), " "))
	}
	golden := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("metrics; with a wanted change, run the test with -update:\n%s", diff)
	}
}

func mustTellOnce(t *testing.T, user client.Client, claim string, reasons ...string) {
	t.Helper()
	rolestest.Eventually(t, "the events of "+claim, func() error {
		var events corev1.EventList
		if err := user.List(t.Context(), &events, client.InNamespace("default")); err != nil {
			return err
		}
		var got []string
		for _, e := range events.Items {
			if e.InvolvedObject.Name == claim && e.InvolvedObject.Kind == "PersistentVolumeClaim" {
				if e.Count != 1 || !strings.HasPrefix(e.Source.Component, driver.DefaultName+"_") {
					t.Errorf("event %s of %q, %d times", e.Reason, e.Source.Component, e.Count)
				}
				got = append(got, e.Reason)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, reasons) {
			return fmt.Errorf("told %q", got)
		}
		return nil
	})
}
