package life

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// Stuck is a claim that nothing can serve, and the answer to why. The name is that in
// examples/stuck.yaml.
type Stuck struct {
	Stage    *stage.Stage
	Examples string // folder with the manifests
}

// CommandOfStuck is the command that explains it.
const CommandOfStuck = "purser explain pvc/treasure"

// Explain creates the claim, and returns what explain prints about it.
func (s *Stuck) Explain(ctx context.Context) (string, error) {
	if _, err := s.Stage.Kubectl(ctx, "apply", "-f", filepath.Join(s.Examples, "stuck.yaml")); err != nil {
		return "", err
	}
	args := strings.Fields(CommandOfStuck + " --kubeconfig " + s.Stage.Kubeconfig())[1:]
	command := exec.CommandContext(ctx, filepath.Join(s.Stage.Bin, "purser"), args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if _, answered := errors.AsType[*exec.ExitError](err); !answered || command.ProcessState.ExitCode() != 1 {
		return "", fmt.Errorf("%s: expected exit code 1, for something that is stuck: %w: %s%s", CommandOfStuck, err, out, &problems)
	}
	return string(out), nil
}
