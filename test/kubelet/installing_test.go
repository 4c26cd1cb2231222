package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/quoted"
)

// What docs/installing.md says in place of a registry and a version.
const (
	pagesRegistry = "registry.example.com/purser"
	pagesVersion  = "1.2.3"
)

// extraValues are what a cluster without a network plugin needs beside the values of the page.
func (r *rig) extraValues() string {
	host, port := r.server()
	const driverPorts = 5
	return fmt.Sprintf(`
hostNetwork: true
apiServer: {host: %q, port: %q}
driver:
  kubeletDir: %s
  stateDir: %s
  port: %d
`, host, port, r.kubeletDir(), r.stateDir(), r.freePorts(driverPorts))
}

// The release in bin/release is installed on a real kubelet by the commands of docs/installing.md: it is
// pushed to a registry on this machine, from which helm takes the chart and containerd the images.
// Only the registry, the version and the values of a cluster without a network plugin are other ones.
func TestInstalling(t *testing.T) {
	version := os.Getenv("INSTALL")
	if version == "" {
		t.Skip("INSTALL is not set; run make test-install")
	}
	r := newRig(t)
	at := r.startRegistry()
	values := filepath.Join(r.dir, "values.yaml")
	must(t, os.WriteFile(values, []byte(r.extraValues()), 0o600))
	text, err := os.ReadFile(filepath.Join(root, "docs", "installing.md"))
	must(t, err)
	run := 0
	for _, c := range quoted.Of("docs/installing.md", string(text)) {
		switch {
		case c.Inline, strings.HasPrefix(c.Text, "make release "), strings.HasPrefix(c.Text, "make release-key"):
			continue // make test-install has called these before
		case strings.HasPrefix(c.Text, "helm upgrade"):
			continue // there is one version
		case strings.HasPrefix(c.Text, "helm uninstall"):
			r.awaitClaim("logbook")
			r.call("kubectl delete pvc logbook")
			r.awaitNone(&corev1.PersistentVolumeList{})
		}
		line := strings.NewReplacer(pagesRegistry, at, pagesVersion, strings.TrimPrefix(version, "v"),
			"cosign.pub", "bin/install/cosign.pub", "/usr/local/bin", r.dir).Replace(c.Text)
		if strings.HasPrefix(line, "helm install") {
			line += " --plain-http --values " + values
		}
		r.call(line)
		run++
		if strings.HasPrefix(line, "helm install") {
			r.awaitPods()
		}
	}
	const commands = 8
	if run < commands {
		t.Errorf("only %d commands of the page were run", run)
	}
}

// call runs a command as the page's reader does, in the repository, with our programs on the PATH.
func (r *rig) call(line string) {
	r.t.Helper()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	must(r.t, err)
	command := exec.CommandContext(r.t.Context(), "sh", "-c", line)
	command.Dir = root
	command.Env = append(os.Environ(), "PATH="+r.dir+":"+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+r.cluster.Kubeconfig(), "HOME="+r.dir)
	out, err := command.CombinedOutput()
	r.t.Logf("$ %s\n%s", line, out)
	must(r.t, err)
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

// awaitPods waits until the pods of the release are there and ready.
func (r *rig) awaitPods() {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		var list corev1.PodList
		if err := r.List(ctx, &list, client.InNamespace(process.SystemNamespace)); err != nil {
			return err
		}
		var waiting bytes.Buffer
		for i := range list.Items {
			if !isReady(&list.Items[i]) {
				fmt.Fprintln(&waiting, list.Items[i].Name)
			}
		}
		if len(list.Items) == 0 || waiting.Len() > 0 {
			return fmt.Errorf("%d pods, not ready:\n%s%s", len(list.Items), &waiting, r.story(ctx, list.Items))
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
