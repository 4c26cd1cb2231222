package e2e

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// classWithSecret returns a class whose calls have a secret.
func classWithSecret(namespace string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: builtIn, Parameters: map[string]string{},
	}
	for _, call := range []string{"provisioner", "controller-publish", "node-stage", "node-publish"} {
		class.Parameters[names.ParameterPrefix+call+"-secret-name"] = "call"
		class.Parameters[names.ParameterPrefix+call+"-secret-namespace"] = namespace
	}
	return class
}

// dumpOf returns a dump of the cluster.
func dumpOf(t *testing.T, s *stage.Stage, args ...string) string {
	t.Helper()
	args = append([]string{"dump", "--kubeconfig", s.Kubeconfig()}, args...)
	out, err := exec.CommandContext(t.Context(), filepath.Join(s.Bin, "purser"), args...).Output()
	must(t, err)
	return string(out)
}

func getText(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return string(text)
}

func linesOf(t *testing.T, lines []record.Line) string {
	t.Helper()
	var all strings.Builder
	for _, line := range lines {
		text, err := json.Marshal(line)
		must(t, err)
		all.Write(append(text, '\n'))
	}
	return all.String()
}

// noSecret fails the test if a text has the value of a secret, encoded or not, or what the kubeconfig has to
// prove who its user is.
func noSecret(t *testing.T, s *stage.Stage, texts map[string]string, values ...string) {
	t.Helper()
	for _, value := range slices.Clone(values) {
		values = append(values, base64.StdEncoding.EncodeToString([]byte(value)))
	}
	kubeconfig, err := os.ReadFile(s.Kubeconfig())
	must(t, err)
	for line := range strings.Lines(string(kubeconfig)) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch field {
		case "client-key-data", "client-certificate-data", "certificate-authority-data", "token":
			values = append(values, value)
		}
	}
	if len(values) < 3 {
		t.Error("the kubeconfig has no credentials")
	}
	for name, text := range texts {
		if len(text) < 1000 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		for _, value := range append(values, "-----BEGIN") {
			if strings.Contains(text, value) {
				t.Errorf("a secret is in %s: %.60s", name, value)
			}
		}
	}
}
