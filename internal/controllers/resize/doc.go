// Package resize is the controller that expands the volumes of claims through one CSI driver, as
// core/resizing decides.
//
// It must not decide which size is sent to the driver, nor what an answer means.
package resize
