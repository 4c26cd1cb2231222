package sim

import (
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// uncertain are the codes that leave open whether there is a volume (C-40).
var uncertain = []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.Unavailable}

// halfDone are the codes of drivers that fail during their work, and leave a volume (C-43, H-15).
var halfDone = []codes.Code{codes.Unknown, codes.Internal, codes.DataLoss}

func driverFaults(calm result, _ extent) (all []schedule) {
	for _, n := range calm.calls {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			all = append(all, faulty(n, csidriver.Fault{Code: code})...)
		}
		for _, code := range append(halfDone, uncertain...) {
			all = append(all, faulty(n, csidriver.Fault{Code: code, Effect: csidriver.Done})...)
		}
		all = append(all, faulty(n, csidriver.Fault{Shape: csidriver.Empty})...)
		all = append(all, faulty(n, csidriver.Fault{Shape: csidriver.Small})...)
		for _, s := range faulty(n, csidriver.Fault{Code: codes.DeadlineExceeded, Effect: csidriver.Late, After: 2 * callTimeout}) {
			s.driverLocks = true // see csidriver.Driver
			all = append(all, s)
		}
	}
	return all
}

// faulty has the user delete the claims, or a crash and the deletion, after what the driver did.
func faulty(n int, f csidriver.Fault) []schedule {
	s := schedule{csiAt: n, csi: f}
	deleted, crashed := s, s
	deleted.deleteAt = n
	crashed.crashes, crashed.downFor, crashed.deleteWhileDown = []crash{{n + 1, before}}, longer, true
	return []schedule{s, deleted, crashed}
}

// refusals have a driver that created a volume refuse the same request afterwards: it checks
// credentials or quota before the name. They come in every order with the deletion of the claims,
// and for more than one attempt.
func refusals(calm result, _ extent) (all []schedule) {
	for _, n := range calm.calls {
		for _, code := range []codes.Code{codes.Internal, codes.NotFound, codes.ResourceExhausted, codes.InvalidArgument, codes.Unauthenticated} {
			no := csidriver.Fault{Code: code}
			for m := n + 1; m <= n+4; m++ {
				s := schedule{crashes: []crash{{n, inFlight}}, downFor: briefly, csiAt: m, csiUntil: m + 4, csi: no}
				meanwhile, later, classless := s, s, s
				meanwhile.deleteWhileDown, later.deleteAt, classless.recreateClassAt = true, m+2, m+1
				all = append(all, s, meanwhile, later, classless)
			}
			half := no
			half.Effect = csidriver.Done
			s := schedule{csiAt: n, csiUntil: n + 3, csi: half}
			deleted := s
			deleted.deleteAt = n + 1
			if code == codes.Internal {
				all = append(all, s, deleted)
			}
		}
	}
	return all
}

// vagueRefusals have a driver that created a volume refuse the next request, of a class that was
// created again, for its parameters, and not with AlreadyExists. After the deletion of the claim,
// the first request is repeated and finds the volume (H-1). While the claim exists it cannot be
// provisioned, so it is deleted in any case.
func vagueRefusals(calm result, _ extent) (all []schedule) {
	for _, n := range calm.calls {
		half := schedule{csiAt: n, csi: csidriver.Fault{Code: codes.Internal, Effect: csidriver.Done}, recreateClassAt: n, driverVague: true}
		for m := n + 1; m <= n+5; m++ {
			deleted, crashed := half, half
			deleted.deleteAt = m
			crashed.crashes, crashed.downFor, crashed.deleteWhileDown = []crash{{m, lost}}, briefly, true
			all = append(all, deleted, crashed)
			late := schedule{crashes: []crash{{n, inFlight}}, downFor: longer, csiAt: m, csi: csidriver.Fault{Code: codes.NotFound}, recreateClassAt: m, driverVague: true}
			for late.deleteAt = m + 1; late.deleteAt <= m+4; late.deleteAt++ {
				all = append(all, late)
			}
		}
	}
	return all
}

// driverFaultsUnseen are schedules of calls with an unknown outcome, while users change objects and
// one of the watches is frozen.
func driverFaultsUnseen(calm result, _ extent) (all []schedule) {
	for _, n := range calm.calls {
		for _, effect := range []csidriver.Effect{csidriver.None, csidriver.Done} {
			for _, kind := range calm.work.kinds() {
				s := schedule{csiAt: n, csi: csidriver.Fault{Code: codes.Unavailable, Effect: effect}, views: []view.Fault{{Kind: kind, Frozen: true}}, breaksAt: n}
				deleted, classless, replaced := s, s, s
				deleted.deleteAt, classless.dropClassAt, replaced.replaceAt = n, n, n
				all = append(all, s, deleted, classless, replaced)
			}
		}
	}
	return all
}
