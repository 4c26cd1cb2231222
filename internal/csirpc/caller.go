package csirpc

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
)

// Locks lets one call at a time be in flight for a volume, by the name of its PersistentVolume and
// by its handle. An error is a gRPC status with the code Aborted. The package volumelock has the
// implementation.
type Locks interface {
	Begin(method, volume, handle string) (end func(), err error)
}

// CallerConfig is what a [Caller] needs.
type CallerConfig struct {
	Slots    int   // calls of one RPC in flight at most; 0 for no bound beside the number of workers
	Locks    Locks // shared by all callers of the driver in this process
	InFlight *prometheus.GaugeVec
	Limits   *prometheus.GaugeVec // calls of each RPC that may be in flight now; nil for none
	// ReadSecret reads the values of a secret from the API server.
	ReadSecret func(ctx context.Context, ref types.NamespacedName) (map[string]string, error)
}

// Caller owns the calls of one controller to the driver. Each call goes through [Caller.Do].
type Caller struct {
	cfg CallerConfig

	mu    sync.Mutex
	slots map[string]*slots // by RPC; nil without a bound
}

// NewCaller returns a caller without calls in flight.
func NewCaller(cfg CallerConfig) *Caller {
	c := &Caller{cfg: cfg}
	if cfg.Slots > 0 {
		c.slots = map[string]*slots{}
	}
	return c
}

// AbsentSecret says what to do when the secret of a call does not exist.
type AbsentSecret int

const (
	// RefuseWithoutSecret makes no call without the secret.
	RefuseWithoutSecret AbsentSecret = iota
	// CallWithoutSecret makes the call without a secret (D-15, H-16). A secret that exists and
	// cannot be read prevents the call.
	CallWithoutSecret
)

// Call is one call to the driver.
type Call struct {
	Method string // of the RPC, such as CreateVolume
	// Volume is the name of the PersistentVolume, or the name in a request that creates one; empty for
	// a call about no volume.
	Volume string
	Handle string // of the volume; empty when it is not known yet
	// Migrated says that the volume is one of an in-tree plugin, for the label of the metrics (ME-4).
	Migrated bool
	// Timeout bounds the RPC.
	Timeout time.Duration
	Secret  types.NamespacedName // empty for none
	Absent  AbsentSecret
	// Check runs when no other call for the volume can begin in this process. An error prevents the
	// call. nil for no check.
	Check func(ctx context.Context) error
	// Fence bounds the RPC so that it ends before another leader may act on its effect. nil for no
	// fence.
	Fence func(ctx context.Context) (context.Context, context.CancelFunc, error)
	// Mark writes down that the call may be in flight. It is the last step before Send, so that no
	// mark stays for a call that one of the other steps prevented. An error prevents the call. nil
	// for no mark.
	Mark func(ctx context.Context) error
	// Send makes the RPC. The secret values may go into its request and nowhere else.
	Send func(ctx context.Context, secrets map[string]string) error
}

// Step is how far a call came.
type Step int

// The steps of a call, in their order. The driver has seen a call only if it came to StepSent.
const (
	StepLock Step = iota
	StepCheck
	StepSlot
	StepSecret
	StepFence
	StepMark
	StepSent
)

// Failure is a call that did not succeed, and how far it came.
type Failure struct {
	csispec.Failure
	Step Step
	// Cause is the error of a step before StepSent, for errors.As; nil for StepSent.
	Cause error
}

// Sent reports whether the driver may have seen the call.
func (f *Failure) Sent() bool { return f.Step == StepSent }

// Answer returns the failure for rules, which do not know the steps; nil for success.
func (f *Failure) Answer() *csispec.Failure {
	if f == nil {
		return nil
	}
	return &f.Failure
}

// failed returns the failure with the error of a step. An error that is not a gRPC status is no
// answer of the driver, and has no code.
func failed(step Step, err error, secrets map[string]string) *Failure {
	s, is := status.FromError(err)
	f := &Failure{Step: step}
	f.NoAnswer, f.Message = step != StepSent || !is, inText(s.Message(), secrets)
	if is {
		f.Code = s.Code()
	}
	if step != StepSent {
		f.Cause = err
	}
	return f
}

// Do makes one call, and returns nil when the driver answered with success. The order of the steps:
//  1. lock the volume, or fail with the code Aborted;
//  2. run the check;
//  3. wait for a slot, of which there are fewer while the driver is overloaded;
//  4. read the secret, as late as possible, since values must not be held while the call waits;
//  5. enter the fence;
//  6. write the mark, when nothing but the driver can refuse the call any more;
//  7. send, with the timeout, counted in the gauge of calls in flight.
//
// All that a step takes is given back when Do returns.
func (c *Caller) Do(ctx context.Context, call Call) *Failure {
	end, err := c.lock(call)
	if err != nil {
		return failed(StepLock, err, nil)
	}
	defer end()
	if call.Check != nil {
		if err := call.Check(ctx); err != nil {
			return failed(StepCheck, err, nil)
		}
	}
	release, err := c.Slot(ctx, call.Method)
	if err != nil {
		return failed(StepSlot, err, nil)
	}
	defer release()
	secrets, absent, err := c.secret(ctx, call)
	if err != nil {
		failure := failed(StepSecret, err, nil)
		failure.Secret = call.Secret
		return failure
	}
	if call.Fence != nil {
		bounded, cancel, err := call.Fence(ctx)
		if err != nil {
			return failed(StepFence, err, nil)
		}
		defer cancel()
		ctx = bounded
	}
	if call.Mark != nil {
		if err := call.Mark(ctx); err != nil {
			return failed(StepMark, err, nil)
		}
	}
	if err := c.send(ctx, call, secrets); err != nil {
		failure := failed(StepSent, err, secrets)
		if absent {
			failure.Secret = call.Secret
		}
		return failure
	}
	return nil
}

// lock locks the volume of a call. A call about no volume, such as ListVolumes, has none.
func (c *Caller) lock(call Call) (end func(), err error) {
	if call.Volume == "" && call.Handle == "" {
		return func() {}, nil
	}
	return c.cfg.Locks.Begin(call.Method, call.Volume, call.Handle)
}

// Slot waits until one more call of an RPC may be in flight. release must be called at its end.
func (c *Caller) Slot(ctx context.Context, method string) (release func(), err error) {
	s := c.slotsOf(method)
	if s == nil {
		return func() {}, nil
	}
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	return s.give, nil
}

// slotsOf returns the slots of an RPC; nil without a bound.
func (c *Caller) slotsOf(method string) *slots {
	if c.slots == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[method]
	if s == nil {
		var gauge prometheus.Gauge
		if c.cfg.Limits != nil {
			gauge = c.cfg.Limits.WithLabelValues(method)
		}
		s = newSlots(c.cfg.Slots, gauge)
		c.slots[method] = s
	}
	return s
}

// IsCrowded reports that as many calls of an RPC wait for a slot as may be in flight. A run that would make
// one more is better put off than begun, as it would wait longer than its deadline allows.
func (c *Caller) IsCrowded(method string) bool {
	s := c.slotsOf(method)
	return s != nil && s.isCrowded()
}

// Busy returns the number of calls that have a slot.
func (c *Caller) Busy() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.slots {
		n += s.taken()
	}
	return n
}

// secret returns the values for one call. absent reports that the call goes without its secret.
func (c *Caller) secret(ctx context.Context, call Call) (values map[string]string, absent bool, err error) {
	if call.Secret.Name == "" {
		return nil, false, nil
	}
	values, err = c.cfg.ReadSecret(ctx, call.Secret)
	if apierrors.IsNotFound(err) && call.Absent == CallWithoutSecret {
		return nil, true, nil
	}
	return values, false, err
}

func (c *Caller) send(ctx context.Context, call Call, secrets map[string]string) error {
	inFlight := c.cfg.InFlight.WithLabelValues(call.Method)
	inFlight.Inc()
	defer inFlight.Dec()
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	if call.Migrated {
		ctx = markMigrated(ctx)
	}
	began := time.Now()
	err := call.Send(ctx, secrets)
	if s := c.slotsOf(call.Method); s != nil {
		s.ended(err, time.Since(began), call.Timeout)
	}
	return err
}

// Aborted returns the error of a check that finds another user of the volume. The call is tried
// again, as after a driver's answer with this code.
func Aborted(format string, args ...any) error {
	return status.Errorf(codes.Aborted, format, args...)
}
