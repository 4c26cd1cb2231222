package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	daytwo "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/names"
)

// dayTwo runs a command as the administrator, and returns its output and exit code.
func (b testNamespace) dayTwo(t *testing.T, args ...string) (out, notes string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(b.Bin, "purser"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig())
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); command.ProcessState == nil {
		t.Fatalf("purser %s: %v", strings.Join(args, " "), err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

// answer runs a command with -o json, and decodes its answer.
func answer[T any](t *testing.T, b testNamespace, wantCode int, args ...string) (decoded T) {
	t.Helper()
	out, notes, code := b.dayTwo(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &decoded); err != nil || code != wantCode {
		t.Fatalf("purser %s: exit code %d, want %d, %v\n%s%s", strings.Join(args, " "), code, wantCode, err, out, notes)
	}
	return decoded
}

// A kubelet that the test serves has statistics of a claim; another node has no kubelet, and is named.
func TestDayTwoUsage(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.awaitBound(t, b.claim(t, "data", ""))
	idle := b.claim(t, "idle", "")
	b.awaitBound(t, idle)
	summary := fmt.Sprintf(`{"pods":[{"volume":[{"time":"2026-01-01T00:00:00Z","capacityBytes":100,"usedBytes":95,"availableBytes":5,
		"inodes":10,"inodesUsed":1,"pvcRef":{"name":"data","namespace":%q}}]}]}`, b.name)
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats/summary" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, summary)
	}))
	_ = kubelet.Listener.Close()
	var err error
	kubelet.Listener, err = net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	must(t, err)
	kubelet.StartTLS()
	defer kubelet.Close()
	b.nodeAt(t, b.name, kubelet.Listener.Addr().String())
	b.podOn(t, "user", b.name, "data")
	r := answer[daytwo.UsageReport](t, b, daytwo.ExitFound, "df", "-n", b.name)
	if len(r.Claims) != 2 || r.Claims[0].Claim != "data" || *r.Claims[0].UsedBytes != 95 || *r.Claims[0].Percent != 95 ||
		r.Claims[0].Level != daytwo.Critical || r.Claims[1].Why != "no pod uses it" || r.Claims[1].Driver != builtIn {
		t.Errorf("%+v", r.Claims)
	}
	silent := "silent-" + b.name
	b.nodeAt(t, silent, net.JoinHostPort(ownAddress(t), "1"))
	b.podOn(t, "other", silent, "idle")
	r = answer[daytwo.UsageReport](t, b, daytwo.ExitUnknown, "df", "idle", "-n", b.name)
	if len(r.Claims) != 1 || r.Silent[silent] == "" || !strings.Contains(r.Claims[0].Why, silent) {
		t.Errorf("%+v", r)
	}
	out, _, _ := b.dayTwo(t, "df", "-n", b.name)
	if !strings.Contains(out, "No answer from the kubelet of 1 node ("+silent+")") {
		t.Error(out)
	}
	head, _, _ := strings.Cut(out, "\n")
	isQuoted(t, head)
	b.completes(t, []string{"df", "-n", b.name, "d"}, "data")
	b.completes(t, []string{"explain", "-n", b.name, "pvc/i"}, "pvc/idle")
	b.completes(t, []string{"explain", "-n", b.name[:len(b.name)-1]}, b.name)
	b.completes(t, []string{"check", "purs"}, "purser")
}

// ownAddress returns an address of this machine to which the API server forwards requests: it refuses loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, one := range all {
		if at, ok := one.(*net.IPNet); ok && at.IP.To4() != nil && at.IP.IsGlobalUnicast() {
			return at.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback, to which the API server forwards nothing")
	return ""
}

// isQuoted fails unless docs/day-two.md has a line that a command prints, whatever its columns are.
func isQuoted(t *testing.T, line string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(examples(t), "..", "docs", "day-two.md"))
	must(t, err)
	words := strings.Join(strings.Fields(line), " ")
	for quoted := range strings.Lines(string(page)) {
		if strings.Join(strings.Fields(quoted), " ") == words {
			return
		}
	}
	t.Errorf("docs/day-two.md does not have %q", line)
}

// completes fails unless the shell is offered a value for the last argument.
func (b testNamespace) completes(t *testing.T, args []string, want string) {
	t.Helper()
	out, notes, _ := b.dayTwo(t, append([]string{"__complete"}, args...)...)
	if !strings.Contains("\n"+out, "\n"+want+"\n") {
		t.Errorf("%q completes to\n%s%s", args, out, notes)
	}
}

// nodeAt creates a node whose kubelet is said to be at an address.
func (b testNamespace) nodeAt(t *testing.T, name, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(t, b.Client.Create(t.Context(), node))
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), node) })
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	must(t, b.Client.Status().Update(t.Context(), node))
}

// podOn creates a pod of a node that uses a claim.
func (b testNamespace) podOn(t *testing.T, name, node, claim string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
	eventually(t, func(ctx context.Context) error { return b.Client.Create(ctx, pod.DeepCopy()) })
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) })
}

// The condition that the controllers keep says since when a claim is unused.
func TestDayTwoUnused(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.awaitBound(t, b.claim(t, "idle", ""))
	eventually(t, func(context.Context) error {
		out, _, code := b.dayTwo(t, "unused", "-n", b.name, "--days", "0")
		if code != daytwo.ExitFound || !strings.Contains(out, "idle") || strings.Contains(out, "since when is unknown") {
			return fmt.Errorf("exit code %d\n%s", code, out)
		}
		return nil
	})
	out, _, _ := b.dayTwo(t, "unused", "-n", b.name, "--days", "0")
	head, _, _ := strings.Cut(out, "\n")
	isQuoted(t, head)
	r := answer[daytwo.UnusedReport](t, b, 0, "unused", "-n", b.name, "--days", "1")
	if len(r.Unused) != 0 || r.Recent != 1 {
		t.Errorf("%+v", r)
	}
}

// What nothing refers to is found, with its proof, and stays: a volume of the driver, and a released volume.
func TestDayTwoOrphans(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	class := b.class(t, func(c *storagev1.StorageClass) { *c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain })
	well := b.awaitBound(t, b.claim(t, "well", ""))
	claim := b.claim(t, "released", class.Name)
	released := b.awaitBound(t, claim)
	b.delete(t, claim)
	b.awaitGone(t, claim)
	t.Cleanup(func() { _ = b.Client.Delete(context.Background(), released) })
	lost, err := b.Driver.Controller().CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "lost-" + b.name, CapacityRange: &csi.CapacityRange{RequiredBytes: 4 << 20},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	must(t, err)
	handle := lost.GetVolume().GetVolumeId()
	t.Cleanup(func() {
		_, err := b.Driver.Controller().DeleteVolume(context.Background(), &csi.DeleteVolumeRequest{VolumeId: handle})
		if err != nil {
			t.Error(err)
		}
	})
	socket := "unix://" + filepath.Join(b.DataDir, "csi.sock")
	r := answer[daytwo.OrphanReport](t, b, daytwo.ExitFound, "orphans", "--older-than", "0s", "--again-after", "1s",
		"--csi-address", socket, "--kubelet-dir", b.DataDir)
	found := map[string]string{}
	for _, o := range r.Orphans {
		found[o.Name] = o.Kind + ": " + strings.Join(o.Proof, "; ")
		if len(o.Proof) == 0 {
			t.Errorf("no proof: %+v", o)
		}
	}
	if !strings.HasPrefix(found[handle], "volume of the driver: none of the ") || found[released.Name] == "" ||
		found[well.Name] != "" || found[well.Spec.CSI.VolumeHandle] != "" || len(r.Unread) > 1 {
		t.Errorf("%q, not compared %q", found, r.Unread)
	}
	manifest, notes, code := b.dayTwo(t, "orphans", "--csi-address", socket, "--pv-of", handle)
	if code != 0 || !strings.Contains(manifest, "volumeHandle: "+handle) || !strings.Contains(manifest, "Retain") {
		t.Errorf("exit code %d\n%s%s", code, manifest, notes)
	}
	out, _, _ := b.dayTwo(t, "orphans", "--older-than", "0s")
	if !strings.Contains(out, "PersistentVolume "+released.Name) || !strings.Contains(out, "Nothing was deleted.") {
		t.Error(out)
	}
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(released), released))
}

// The default class passes, as far as a cluster without a kubelet allows, and nothing is left, also after Ctrl-C.
func TestDayTwoCheck(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	r := answer[daytwo.CheckReport](t, b, 0, "check", "purser", "-n", b.name, "--size", "4Mi", "--step-timeout", "30s")
	outcomes := map[string]daytwo.Outcome{}
	for _, s := range r.Steps {
		outcomes[s.Step] = s.Outcome
	}
	if len(r.Steps) != 8 || outcomes[daytwo.StepMount] != daytwo.Passed || outcomes[daytwo.StepDelete] != daytwo.Passed ||
		outcomes[daytwo.StepWrite] != daytwo.Skipped {
		t.Errorf("%+v", r.Steps)
	}
	b.nothingChecked(t)
	dry := answer[daytwo.CheckReport](t, b, 0, "check", "purser", "-n", b.name, "--dry-run")
	if !dry.DryRun || len(dry.Steps) != 8 {
		t.Errorf("%+v", dry)
	}
	later := b.class(t, func(c *storagev1.StorageClass) {
		*c.VolumeBindingMode, *c.ReclaimPolicy = storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain
	})
	r = answer[daytwo.CheckReport](t, b, 0, "check", later.Name, "-n", b.name, "--size", "4Mi", "--skip", "snapshot,clone")
	if r.Steps[0].Outcome != daytwo.Passed || len(r.Left) > 0 {
		t.Errorf("%+v", r)
	}
	b.nothingChecked(t)
	broken := *later.DeepCopy()
	broken.ObjectMeta = metav1.ObjectMeta{Name: b.name + "-broken"}
	broken.Parameters, *broken.VolumeBindingMode = map[string]string{"colour": "red"}, storagev1.VolumeBindingImmediate
	must(t, b.Client.Create(t.Context(), &broken))
	r = answer[daytwo.CheckReport](t, b, daytwo.ExitFound, "check", broken.Name, "-n", b.name, "--step-timeout", "2s")
	if r.Steps[0].Outcome != daytwo.Failed || !strings.Contains(r.Steps[0].Text, "colour") || r.Steps[1].Outcome != daytwo.Skipped {
		t.Errorf("%+v", r.Steps)
	}
	b.nothingChecked(t)
	b.interruptedCheck(t, broken.Name)
}

// interruptedCheck sends Ctrl-C to a check that waits for its claim.
func (b testNamespace) interruptedCheck(t *testing.T, class string) {
	t.Helper()
	var out bytes.Buffer
	command := exec.Command(filepath.Join(b.Bin, "purser"), "check", class, "-n", b.name)
	command.Env = append(os.Environ(), "KUBECONFIG="+b.Kubeconfig())
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, command.Start())
	eventually(t, func(ctx context.Context) error {
		var claims corev1.PersistentVolumeClaimList
		err := b.Client.List(ctx, &claims, client.InNamespace(b.name), client.HasLabels{names.LabelCheck})
		if err == nil && len(claims.Items) == 0 {
			err = errors.New("no claim")
		}
		return err
	})
	must(t, command.Process.Signal(os.Interrupt))
	err := command.Wait()
	if command.ProcessState.ExitCode() != daytwo.ExitFound || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%v\n%s", err, &out)
	}
	b.nothingChecked(t)
}

// nothingChecked fails if an object of a check is left.
func (b testNamespace) nothingChecked(t *testing.T) {
	t.Helper()
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PodList{}} {
		must(t, b.Client.List(t.Context(), list, client.InNamespace(b.name), client.HasLabels{names.LabelCheck}))
		encoded, err := json.Marshal(list)
		if err != nil || strings.Contains(string(encoded), `"purser-check-`) {
			t.Errorf("left: %s, %v", encoded, err)
		}
	}
	var volumes corev1.PersistentVolumeList
	must(t, b.Client.List(t.Context(), &volumes))
	for _, pv := range volumes.Items {
		if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == b.name {
			t.Errorf("left: %s", pv.Name)
		}
	}
}
