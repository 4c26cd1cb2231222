package resizer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/resize"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// envNodeName is the variable with the node of an instance with --node-deployment.
const envNodeName = "NODE_NAME"

// validateNode lists the settings that cannot be combined with one instance per node.
func (r *Resizer) validateNode() error {
	if !r.NodeDeployment {
		return nil
	}
	return errors.Join(
		cli.Need(os.Getenv(envNodeName) != "",
			"--node-deployment: the environment variable NODE_NAME is not set; set it to the node's name, as with "+
				"valueFrom.fieldRef.fieldPath spec.nodeName"),
		cli.Need(!r.Election.Enabled,
			"--node-deployment: one instance works for each node; leave out --leader-election"),
	)
}

// here returns which volumes are on the node of the instance, whose topology the driver returns; nil
// without --node-deployment. It is the rule by which the provisioner of the node deletes volumes, so
// each volume has one owner in both.
func (r *Resizer) here(ctx context.Context, s *sidecar.Sidecar) (resize.Here, error) {
	if !r.NodeDeployment {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Conn.Timeout())
	defer cancel()
	info, err := s.Conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf(
			"--node-deployment: the driver at --csi-address=%s does not tell where its node is: %w", r.CSIAddress, err,
		)
	}
	own := provision.NodeOptions{
		Name: os.Getenv(envNodeName), Segments: info.GetAccessibleTopology().GetSegments(),
	}
	return func(pv *corev1.PersistentVolume) bool { return provision.IsOnNode(pv, own, s.Driver.Name) }, nil
}
