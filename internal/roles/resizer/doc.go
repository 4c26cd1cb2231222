// Package resizer is the role csi-resizer, the drop-in for the external-resizer: its flags and
// feature gates, and how its controller is built. The rules of expansion are in internal/resize/rules.
package resizer
