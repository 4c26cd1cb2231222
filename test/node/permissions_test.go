package node

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/purser-csi/purser/internal/roles/node"
)

// The account of this rig is an administrator, and the agent says so at its start.
func TestWidePermissionIsLogged(t *testing.T) {
	r := newRig(t)
	said := make(chan string, 10)
	r.start(func(n *node.Node) {
		n.Log = funcr.New(func(_, text string) {
			if strings.Contains(text, "wide permission") {
				said <- text
			}
		}, funcr.Options{})
	})
	if text := <-said; !strings.Contains(text, "administrator of the cluster") || !strings.Contains(text, "deploy/rbac/node.yaml") {
		t.Error(text)
	}
}
