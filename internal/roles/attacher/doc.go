// Package attacher is the role csi-attacher, the drop-in for the external-attacher: its flags and
// feature gates, and how its controllers are built. The rules of attaching are in internal/attacher/rules.
package attacher
