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
//	default: // failure.Answer() is the driver's answer; internal/csispec says whether it is final
//	}
//
// [VolumeLocks] refuses a call about a volume while another call for it is in flight in this process:
// "The CO SHOULD ensure that there are no other calls in-flight for the volume" (CSI, "Concurrency").
// The controllers order their calls by their caches; the lock is for caches of different ages, where
// one controller creates what another deletes. It never waits: it returns the error that a driver
// would return, ABORTED. A driver may answer two requests with one volume, so a returned handle stays
// locked against DeleteVolume until its PersistentVolume is written.
//
// The package decides nothing about volumes. Of the Kubernetes API it knows how a secret is named
// and that one may not exist.
package csirpc
