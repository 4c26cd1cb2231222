// Package attach plays scenarios of attaching and detaching to the stock attach-detach controller
// with the external-attacher and to ours, each side on an API server of its own with virtual nodes
// and a scripted driver, and compares VolumeAttachments, the volumes in node status, finalizers,
// events of pods and calls to the driver.
package attach
