package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/quoted"
)

// What docs/installing.md says in place of a registry, a version and the next version.
const (
	pagesRegistry = "registry.example.com/purser"
	pagesVersion  = "1.2.3"
	pagesNext     = "1.2.4"
)

// extraValues are what a cluster without a network plugin needs beside the values of the page.
func (r *rig) extraValues() string {
	host, port := r.server()
	const driverPorts = 5
	first := r.freePorts(driverPorts + 1)
	return fmt.Sprintf(`
hostNetwork: true
apiServer: {host: %q, port: %q}
snapshotController: {replicas: 1, port: %d}
driver:
  kubeletDir: %s
  stateDir: %s
  port: %d
`, host, port, first+driverPorts, r.kubeletDir(), r.stateDir(), first)
}

// The release in bin/release is installed on a real kubelet by the commands of docs/installing.md: it is
// pushed to a registry on this machine, from which helm takes the chart and containerd the images.
// Only the registry, the version and the values of a cluster without a network plugin are other ones. The
// upgrade to the next version is one to the same version. The cluster has the volume controllers of upstream.
func TestInstalling(t *testing.T) {
	version := os.Getenv("INSTALL")
	if version == "" {
		t.Skip("INSTALL is not set; run make test-install")
	}
	r := startRig(&rig{t: t, volumes: true})
	r.importShell()
	at := r.startRegistry()
	values := filepath.Join(r.dir, "values.yaml")
	must(t, os.WriteFile(values, []byte(r.extraValues()), 0o600))
	text, err := os.ReadFile(filepath.Join(root, "docs", "installing.md"))
	must(t, err)
	run := 0
	var tested []string // the outputs of helm test
	for _, c := range quoted.Of("docs/installing.md", string(text)) {
		switch {
		case c.Inline, strings.HasPrefix(c.Text, "make release "), strings.HasPrefix(c.Text, "make release-key"):
			continue // make test-install has called these before
		case strings.HasPrefix(c.Text, "helm uninstall"):
			r.awaitClaim("logbook")
			r.call("kubectl delete pvc logbook")
			r.awaitNone(&corev1.PersistentVolumeList{})
		}
		number := strings.TrimPrefix(version, "v")
		line := strings.NewReplacer(pagesRegistry, at, pagesVersion, number, pagesNext, number,
			"cosign.pub", "bin/install/cosign.pub", "/usr/local/bin", r.dir).Replace(c.Text)
		isChart := strings.Contains(line, "oci://")
		if isChart {
			line += " --plain-http"
		}
		if strings.HasPrefix(line, "helm install") {
			line += " --values " + values
		}
		out := r.call(line)
		run++
		if isChart {
			r.awaitRollout()
		}
		if strings.HasPrefix(line, "helm test") {
			tested = append(tested, out)
		}
	}
	r.awaitNoPods()
	r.driverIsGone()
	checkTests(t, tested)
	const commands = 14
	if run < commands {
		t.Errorf("only %d commands of the page were run", run)
	}
}

// checkTests looks for the report of `purser check` in the outputs of helm test: before there are snapshots,
// and with them, when no step is skipped.
func checkTests(t *testing.T, outputs []string) {
	t.Helper()
	const both = 2
	if len(outputs) != both {
		t.Fatalf("helm test was run %d times", len(outputs))
	}
	for i, wants := range [both][]string{
		{
			"passed", "write and read back", "to 2Gi", "skipped        -  take a snapshot", "it has what was written",
			"Nothing is left.",
		},
		{"restore the snapshot    it has what was written", "The class has passed the check. Nothing is left."},
	} {
		for _, want := range wants {
			if !strings.Contains(outputs[i], want) {
				t.Errorf("helm test, %d: no %q in\n%s", i+1, want, outputs[i])
			}
		}
	}
}

// call runs a command as the page's reader does, in the repository, with our programs on the PATH.
func (r *rig) call(line string) string {
	r.t.Helper()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	must(r.t, err)
	command := exec.CommandContext(r.t.Context(), "sh", "-c", line)
	command.Dir = root
	command.Env = append(os.Environ(),
		"PATH="+r.dir+":"+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+r.cluster.Kubeconfig(), "HOME="+r.dir)
	out, err := command.CombinedOutput()
	r.t.Logf("$ %s\n%s", line, out)
	if err != nil {
		var pods corev1.PodList
		var claims corev1.PersistentVolumeClaimList
		readErr := errors.Join(r.List(r.t.Context(), &pods), r.List(r.t.Context(), &claims))
		for i := range claims.Items {
			r.t.Logf("claim %s: %+v", claims.Items[i].Name, claims.Items[i].Status)
		}
		r.t.Fatalf("%v, %v\n%s", err, readErr, r.story(r.t.Context(), pods.Items))
	}
	return string(out)
}

// startRegistry runs a registry on loopback, and returns its address with the path of the release.
func (r *rig) startRegistry() string {
	r.t.Helper()
	program := filepath.Join(r.dir, "release")
	build := exec.CommandContext(r.t.Context(), "go", "build", "-o", program, ".")
	build.Dir, build.Env = filepath.Join(root, "tools", "release"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	server := exec.Command(program, "serve")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := server.StdoutPipe()
	must(r.t, err)
	must(r.t, server.Start())
	r.t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	must(r.t, err)
	return strings.TrimSpace(address) + "/purser"
}

// awaitRollout waits until the pods of each controller are those of its newest template, and ready.
func (r *rig) awaitRollout() {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		var daemons appsv1.DaemonSetList
		var deployments appsv1.DeploymentList
		var pods corev1.PodList
		in := client.InNamespace(process.SystemNamespace)
		err := errors.Join(r.List(ctx, &daemons, in), r.List(ctx, &deployments, in), r.List(ctx, &pods, in))
		if err != nil {
			return err
		}
		var waiting []string
		for i := range daemons.Items {
			d := &daemons.Items[i]
			s, want := d.Status, d.Status.DesiredNumberScheduled
			if s.ObservedGeneration < d.Generation || want == 0 || s.UpdatedNumberScheduled < want ||
				s.NumberReady < want {
				waiting = append(waiting, d.Name)
			}
		}
		for i := range deployments.Items {
			d := &deployments.Items[i]
			s, want := d.Status, *d.Spec.Replicas
			if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.ReadyReplicas < want ||
				s.Replicas > want {
				waiting = append(waiting, d.Name)
			}
		}
		if len(daemons.Items) == 0 || len(waiting) > 0 {
			return fmt.Errorf("%d DaemonSets, not rolled out: %q\n%s",
				len(daemons.Items), waiting, r.story(ctx, pods.Items))
		}
		return nil
	})
}

// awaitClaim has a pod use the claim, and waits until it is bound.
func (r *rig) awaitClaim(name string) {
	r.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	must(r.t, r.Get(r.t.Context(), client.ObjectKeyFromObject(claim), claim))
	pod := r.pod("writer", claim, "write", "/v/hello", "read", "/v/hello")
	r.awaitPhase(pod, corev1.PodSucceeded)
	r.remove(pod)
}
