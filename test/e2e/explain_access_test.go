package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// The role that dump --rbac prints is enough for explain and dump. Without one of its rules, the
// answer names the kind that could not be read, and is as complete as possible.
func TestExplainUnderItsRole(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	b.claim(t, "no-class", "nope")
	role, _, err := b.purser(t.Context(), "dump", "--rbac")
	must(t, err)
	for name, text := range map[string]string{"purser-explain": role, "purser-explain-less": withoutRule(t, role, "[events]")} {
		text = strings.Replace(text, "name: purser-explain\n", "name: "+name+"\n", 1)
		file := filepath.Join(t.TempDir(), "role.yaml")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		kubeconfig := b.userOf(t, name, file)
		out, code, err := b.purser(t.Context(), "explain", "pvc/no-class", "-n", b.name, "--kubeconfig", kubeconfig)
		all, _, allErr := b.purser(t.Context(), "explain", "-n", b.name, "--kubeconfig", kubeconfig)
		must(t, errors.Join(err, allErr))
		if code != 1 || !strings.Contains(out, "ClassMissing") {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
		if says := strings.Contains(all, "Events were not read (the permission to list events is missing)"); says != (name != "purser-explain") ||
			strings.Count(all, "were not read") > 1 {
			t.Errorf("%s: what is said to be missing: %s", name, all)
		}
	}
}

// withoutRule removes the rule about resources from a role.
func withoutRule(t *testing.T, role, resources string) string {
	t.Helper()
	lines := strings.SplitAfter(role, "\n")
	for i, line := range lines {
		if strings.Contains(line, "resources: "+resources) {
			return strings.Join(append(lines[:i-1:i-1], lines[i+2:]...), "")
		}
	}
	t.Fatalf("there is no rule for %s in %s", resources, role)
	return ""
}

// userOf returns the kubeconfig of a new account that has only this role.
func (b testNamespace) userOf(t *testing.T, role, file string) (kubeconfig string) {
	t.Helper()
	for _, args := range [][]string{
		{"apply", "-f", file},
		{"-n", b.name, "create", "serviceaccount", role},
		{"create", "clusterrolebinding", b.name + "-" + role, "--clusterrole", role, "--serviceaccount", b.name + ":" + role},
	} {
		_, err := b.Kubectl(t.Context(), args...)
		must(t, err)
	}
	token, err := b.Kubectl(t.Context(), "-n", b.name, "create", "token", role)
	must(t, err)
	config, err := clientcmd.LoadFromFile(b.Kubeconfig())
	must(t, err)
	for _, user := range config.AuthInfos {
		user.ClientCertificate, user.ClientKey, user.ClientCertificateData, user.ClientKeyData = "", "", nil, nil
		user.Token = strings.TrimSpace(token)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, kubeconfig))
	return kubeconfig
}

// --watch prints the answer again when it has changed, and ends when the claim is bound.
func TestExplainWatch(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, shared(t))
	claim := b.claim(t, "early", b.name)
	out := &lockedBuffer{}
	program, err := stage.Launch(stage.Command{
		Path: filepath.Join(b.Bin, "purser"), Output: out, Env: []string{"KUBECONFIG=" + b.Kubeconfig()},
		Args: []string{"explain", "pvc/early", "-n", b.name, "--watch"},
	})
	must(t, err)
	t.Cleanup(program.Kill)
	eventually(t, func(context.Context) error { return out.has("ClassMissing") })
	b.class(t, func(c *storagev1.StorageClass) {})
	b.awaitBound(t, claim)
	eventually(t, func(context.Context) error {
		select {
		case <-program.Ended():
			return out.has("pvc/early -n " + b.name + "  well")
		default:
			return fmt.Errorf("it has not ended: %s", out)
		}
	})
	if code := program.ExitCode(); code != 0 || strings.Count(out.String(), "Reason        ClassMissing") != 1 {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// lockedBuffer is written by a child while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) has(words string) error {
	if text := b.String(); !strings.Contains(text, words) {
		return fmt.Errorf("%q is not in %s", words, text)
	}
	return nil
}
