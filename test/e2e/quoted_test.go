package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/quoted"
)

// kubectls are the commands of kubectl that pages quote, and how they are run here: with objects that
// exist, and without effect on the tests beside this one. An empty row is run as it is quoted.
var kubectls = map[string]string{
	"kubectl get ... -o yaml":                      "kubectl get pvc -o yaml",
	"kubectl apply --server-side -f deploy/crds":   "kubectl apply --server-side -f deploy/crds --dry-run=server --force-conflicts",
	"kubectl apply -f deploy/crds":                 "kubectl apply -f deploy/crds --dry-run=server",
	"kubectl apply -f examples/claim.yaml":         "kubectl apply -f examples/claim.yaml --dry-run=server",
	"kubectl apply -f examples/pod.yaml":           "kubectl apply -f examples/pod.yaml --dry-run=server",
	"kubectl delete pod/sailor pvc/logbook":        "kubectl delete pod/sailor pvc/logbook --ignore-not-found --dry-run=server",
	"kubectl -n old-namespace delete pvc old-name": "kubectl -n NAMESPACE delete pvc old-name --dry-run=server",
	"kubectl create -f claim.yaml":                 "kubectl create -f examples/claim.yaml --dry-run=client",
	"kubectl cluster-info dump --output-directory": "kubectl cluster-info dump --output-directory FOLDER",
	"kubectl logs": "kubectl logs --help", // without a kubelet there are none
	"kubectl get events --field-selector reason=VolumeFailedDelete":                          "",
	"kubectl get events -A --field-selector reason=ProvisioningFailed":                       "",
	"kubectl get events -A --field-selector reason=VolumeConditionAbnormal":                  "",
	"kubectl create token NAME":                                                              "kubectl create token --help", // as any account
	"kubectl port-forward -n NAMESPACE POD 8443:PORT":                                        "kubectl port-forward --help", // without a kubelet
	"kubectl get events -n default":                                                          "",
	"kubectl get pods":                                                                       "",
	"kubectl get pvc -A -o json":                                                             "",
	"kubectl get pods -n purser-system":                                                      "",
	"kubectl -n purser-system get pods":                                                      "",
	"kubectl --namespace NAMESPACE get lease --selector app.kubernetes.io/managed-by=purser": "",
	"kubectl --namespace NAMESPACE delete lease purser-intents-DRIVER":                       "kubectl --namespace NAMESPACE delete lease purser-intents-x --ignore-not-found",
	"kubectl create namespace purser-system":                                                 "kubectl create namespace purser-system --dry-run=client",
	"kubectl apply -f deploy/rbac/controllers.yaml":                                          "kubectl apply -f deploy/rbac/controllers.yaml --dry-run=client",
	"kubectl get pvc logbook":                                                                "kubectl get pvc logbook --ignore-not-found",
	"kubectl annotate pv NAME purser/reuse=same-name":                                        "kubectl annotate pv VOLUME purser/reuse=same-name --dry-run=server",
	"kubectl annotate pv NAME purser/reuse=new-namespace/new-name":                           "kubectl annotate pv VOLUME purser/reuse=new-namespace/new-name --dry-run=server",
	"kubectl taint node NAME node.kubernetes.io/out-of-service=nodeshutdown:NoExecute":       "kubectl taint node purser node.kubernetes.io/out-of-service=nodeshutdown:NoExecute --dry-run=server",
}

// The commands of kubectl that pages quote are accepted by kubectl and the API server.
func TestQuotedKubectl(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := newTestNamespace(t, s)
	claim := b.claim(t, "old-name", "purser")
	volume := b.awaitBound(t, claim)
	root, err := stage.Root()
	must(t, err)
	commands, err := quoted.All(root)
	must(t, err)
	names := strings.NewReplacer("NAMESPACE", claim.Namespace, "VOLUME", volume.Name, "FOLDER", filepath.Join(t.TempDir(), "dump"))
	seen := map[string]bool{}
	for _, c := range commands {
		if c.Program() != "kubectl" || seen[c.Text] {
			continue
		}
		seen[c.Text] = true
		run, known := kubectls[c.Text]
		if !known {
			t.Errorf("%s: say in kubectls how it is run", c.At())
			continue
		}
		if run == "" {
			run = c.Text
		}
		words := quoted.Command{Text: names.Replace(run)}.Args()
		if err := kubectlIn(t.Context(), s, root, words); err != nil {
			t.Errorf("%s: %v", c.At(), err)
		}
	}
	for text := range kubectls {
		if !seen[text] {
			t.Errorf("no page quotes %q any more", text)
		}
	}
	b.delete(t, claim)
	b.awaitGone(t, &corev1.PersistentVolume{ObjectMeta: volume.ObjectMeta})
}

// kubectlIn runs kubectl in a folder.
func kubectlIn(ctx context.Context, s *stage.Stage, folder string, args []string) error {
	command := exec.CommandContext(ctx, filepath.Join(s.Bin, "kubectl"), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

var (
	varies   = regexp.MustCompile(`\s+\d+\.\ds$|[0-9a-f]{8}(-dirty)?|v\d\S*|\d+`)
	progress = regexp.MustCompile(`(?m)^  ✓ (.*)$`)
	narrated = regexp.MustCompile(`(?m)^  ✓ +\d+\.\d+s  (.*)$`)
)

// The session in README.md has the steps of `up` and of the demo, in their order; times and names vary.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	root, err := stage.Root()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	must(t, err)
	_, session, found := strings.Cut(string(text), "$ make demo\n")
	if !found {
		t.Fatal("README.md has no session of make demo")
	}
	session, _, _ = strings.Cut(session, "\n```\n")
	started, _, _ := strings.Cut(session, "\nReady in ")
	up, _, _ := strings.Cut(s.Output(), "\nReady in ")
	plain := func(text string) string { return strings.TrimSpace(varies.ReplaceAllString(text, "")) }
	if quoted, printed := lines(progress, started, plain), lines(progress, up, plain); !slices.Equal(quoted, printed) {
		t.Errorf("README.md has the steps of up\n%q\nup prints\n%q", quoted, printed)
	}
	var names []string
	for _, step := range slices.Concat((&life.Life{}).Steps(), (&life.Copies{}).Steps(), (&life.Zones{}).Steps()) {
		names = append(names, step.Name)
	}
	if got := lines(narrated, session, strings.TrimSpace); !slices.Equal(got, names) {
		t.Errorf("README.md has the steps\n%q\nthe demo has\n%q", got, names)
	}
}

func lines(of *regexp.Regexp, text string, plain func(string) string) (all []string) {
	for _, match := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, plain(match[1]))
	}
	return all
}
