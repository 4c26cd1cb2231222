// Package attach plays scenarios of attaching and detaching to the stock attach-detach controller
// with the external-attacher and to ours, each side on an API server of its own with virtual nodes
// and a scripted driver, and compares what becomes of VolumeAttachments, the lists of nodes, the
// finalizers, the events of pods and the calls of the driver.
package attach
