package csirpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/purser-csi/purser/internal/csispec"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const secretValue = "hunter2-hunter2"

// trace notes the steps of a call, and fails one of them.
type trace struct {
	steps []string
	fail  string
	err   error
}

func (t *trace) step(name string) error {
	t.steps = append(t.steps, name)
	if name == t.fail {
		return t.err
	}
	return nil
}

// Begin implements Locks.
func (t *trace) Begin(method, volume, handle string) (func(), error) {
	if err := t.step("lock " + method + " " + volume + " " + handle); err != nil {
		return nil, err
	}
	return func() { _ = t.step("unlock") }, nil
}

func (t *trace) caller(gauge *prometheus.GaugeVec) *Caller {
	return NewCaller(CallerConfig{
		Slots: 1, Locks: t, InFlight: gauge,
		ReadSecret: func(context.Context, types.NamespacedName) (map[string]string, error) {
			return map[string]string{"key": secretValue}, t.step("secret")
		},
	})
}

func (t *trace) call() Call {
	return Call{
		Method: "DeleteVolume", Volume: "pv", Handle: "h", Timeout: time.Minute, Secret: types.NamespacedName{Name: "s"},
		Check: func(context.Context) error { return t.step("check") },
		Fence: func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			if err := t.step("fence"); err != nil {
				return nil, nil, err
			}
			bounded, cancel := context.WithCancel(ctx)
			return bounded, func() { cancel(); _ = t.step("unfence") }, nil
		},
		Send: func(ctx context.Context, secrets map[string]string) error {
			if _, bounded := ctx.Deadline(); !bounded || secrets["key"] != secretValue && t.fail != "secret" {
				return errors.New("no deadline or no secret")
			}
			return t.step("send")
		},
	}
}

func gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "in_flight"}, []string{"method"})
}

// R-59, C-44, D-15: the steps of a call are in a fixed order, and an error names the step, without
// secret values.
func TestDo(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")
	busy := status.Error(codes.Aborted, "another call is in flight")
	all := []string{"lock DeleteVolume pv h", "check", "secret", "fence", "send", "unfence", "unlock"}
	for name, tc := range map[string]struct {
		fail  string
		err   error
		edit  func(*Call)
		steps []string
		want  *Failure // without Cause and Secret
	}{
		"success":            {steps: all},
		"the volume is busy": {"lock DeleteVolume pv h", busy, nil, all[:1], &Failure{Step: StepLock, Failure: csispec.Failure{NoAnswer: true, Code: codes.Aborted, Message: "another call is in flight"}}},
		"the check fails":    {"check", Aborted("got %s", "x"), nil, []string{all[0], all[1], "unlock"}, &Failure{Step: StepCheck, Failure: csispec.Failure{NoAnswer: true, Code: codes.Aborted, Message: "got x"}}},
		"the fence fails":    {"fence", errors.New("lost"), nil, append(all[:4:4], "unlock"), &Failure{Step: StepFence, Failure: csispec.Failure{NoAnswer: true, Message: "lost"}}},
		"the driver refuses": {
			"send", status.Error(codes.Internal, "no login with "+secretValue), nil, all,
			&Failure{Step: StepSent, Failure: csispec.Failure{Code: codes.Internal, Message: "no login with [redacted]"}},
		},
		"no answer of gRPC":    {"send", errors.New("broken " + secretValue), nil, all, &Failure{Step: StepSent, Failure: csispec.Failure{NoAnswer: true, Message: "broken [redacted]"}}},
		"no secret is refused": {"secret", notFound, nil, append(all[:3:3], "unlock"), &Failure{Step: StepSecret, Failure: csispec.Failure{NoAnswer: true, Message: notFound.Error()}}},
		"no secret is allowed": {"secret", notFound, func(c *Call) { c.Absent = CallWithoutSecret }, all, nil},
		"an unreadable secret is not an absent one": {
			"secret", errors.New("etcd is slow"), func(c *Call) { c.Absent = CallWithoutSecret }, append(all[:3:3], "unlock"),
			&Failure{Step: StepSecret, Failure: csispec.Failure{NoAnswer: true, Message: "etcd is slow"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr, inFlight := &trace{fail: tc.fail, err: tc.err}, gauge()
			caller, call := tr.caller(inFlight), tr.call()
			if tc.edit != nil {
				tc.edit(&call)
			}
			got := caller.Do(t.Context(), call)
			if diff := cmp.Diff(tc.steps, tr.steps); diff != "" {
				t.Errorf("steps: %s", diff)
			}
			if (got == nil) != (tc.want == nil) {
				t.Fatalf("%+v", got)
			}
			if got != nil {
				if got.Sent() != (got.Cause == nil) || strings.Contains(got.Words(), secretValue) || !strings.Contains(got.Words(), got.Message) {
					t.Errorf("cause %v, words %q", got.Cause, got.Words())
				}
				bare := *got
				bare.Cause, bare.Secret = nil, types.NamespacedName{}
				if bare != *tc.want {
					t.Errorf("got %+v, want %+v", bare, *tc.want)
				}
			}
			if busy, counted := caller.Busy(), testutil.ToFloat64(inFlight.WithLabelValues("DeleteVolume")); busy != 0 || counted != 0 {
				t.Errorf("%d slots and %v calls are left", busy, counted)
			}
		})
	}
}

// D-15: an answer to a call without its secret says so.
func TestDoWithoutSecret(t *testing.T) {
	tr := &trace{fail: "secret", err: apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "s")}
	call := tr.call()
	call.Absent = CallWithoutSecret
	call.Send = func(_ context.Context, secrets map[string]string) error {
		if secrets != nil {
			t.Errorf("secrets %v", secrets)
		}
		return status.Error(codes.Unauthenticated, "no login")
	}
	if got := tr.caller(gauge()).Do(t.Context(), call); got == nil || got.Secret != call.Secret || got.Code != codes.Unauthenticated {
		t.Errorf("%+v", got)
	}
}

// A call that waits for a slot ends with its context, and is not sent.
func TestDoWaitsForASlot(t *testing.T) {
	tr, inFlight := &trace{}, gauge()
	caller := tr.caller(inFlight)
	release, err := caller.Slot(t.Context(), "DeleteVolume")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := caller.Do(ctx, tr.call()); got == nil || got.Step != StepSlot || !errors.Is(got.Cause, context.Canceled) {
		t.Errorf("%+v", got)
	}
	release()
	if got := caller.Do(t.Context(), tr.call()); got != nil {
		t.Errorf("%+v", got)
	}
}
