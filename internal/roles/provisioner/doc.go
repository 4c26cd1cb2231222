// Package provisioner is the role csi-provisioner, the drop-in for the external-provisioner: its
// flags, feature gates and permissions, and how its controllers are built. The rules of
// provisioning are in internal/provision/rules and internal/reclaim/rules.
package provisioner
