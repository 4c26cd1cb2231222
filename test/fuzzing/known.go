package fuzzing

import "github.com/purser-csi/purser/internal/verdict"

// T is what [Known] needs of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Known reports a verdict that is missing, or has no known reason, in whatever follows from it.
func Known[A any](t T, v verdict.Verdict[A]) {
	t.Helper()
	if v == nil {
		t.Errorf("no verdict")
		return
	}
	if asks, ok := v.(verdict.Read[A]); ok {
		if len(asks.Refs) == 0 {
			t.Errorf("reads nothing")
		}
		return
	}
	if f := v.Because(); !verdict.IsDocumented(f.Reason) {
		t.Errorf("no known reason: %+v", f)
	}
	if d, acts := v.(verdict.Do[A]); acts && d.Then != nil {
		Known(t, d.Then)
	}
}
