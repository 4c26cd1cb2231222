// Package csirpc connects to one CSI driver and owns the calls to it. It waits until the driver is
// ready, learns its name and capabilities, measures every call, and logs it without secrets. A lost
// connection is connected again; nothing here ends the process.
//
// Every controller makes its calls through a [Caller], which bounds the calls in flight, locks the
// volume, reads the secret, enters the fence and redacts the driver's words:
//
//	c.calls = csirpc.NewCaller(csirpc.CallerConfig{
//		Slots: workers, Locks: cfg.Locks, InFlight: cfg.InFlight, ReadSecret: c.readSecret,
//	})
//
//	failure := c.calls.Do(ctx, csirpc.Call{
//		Method: "ControllerExpandVolume", Volume: pv.Name, Handle: handle, Timeout: c.Timeout, Secret: ref,
//		Send: func(ctx context.Context, secrets map[string]string) (err error) {
//			response, err = c.CSI.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{Secrets: secrets})
//			return err
//		},
//	})
//	switch {
//	case failure == nil: // response is the driver's
//	case !failure.Sent(): // the driver has not seen the call; failure.Cause says why
//	default: // failure.Code and failure.Words are the driver's answer; core/rpcerror says whether it is final
//	}
//
// The package decides nothing about volumes. Of the Kubernetes API it knows how a secret is named
// and that one may not exist.
package csirpc
