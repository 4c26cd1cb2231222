package process

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// When one part ends, the others are stopped. If it failed, it may have lost its lease, so the
// others are waited for only as long as releasing a lease takes. In an orderly end each part has
// the time that it needs.
func TestTogether(t *testing.T) {
	failed := errors.New("leader election lost")
	fails := func(context.Context) error { return failed }
	ends := func(took time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(took) // in the time of the bubble
			return nil
		}
	}
	for name, tc := range map[string]struct {
		parts map[string]func(context.Context) error
		asked time.Duration // 0 for never
		took  time.Duration
		err   error
	}{
		"one fails":                    {map[string]func(context.Context) error{"a": fails, "b": ends(time.Second)}, 0, time.Second, failed},
		"one fails, the other is slow": {map[string]func(context.Context) error{"a": fails, "b": ends(20 * time.Second)}, 0, stopTimeout, failed},
		"both are asked to end":        {map[string]func(context.Context) error{"a": ends(time.Second), "b": ends(20 * time.Second)}, time.Minute, time.Minute + 20*time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.asked > 0 {
					time.AfterFunc(tc.asked, cancel)
				}
				began := time.Now()
				err := RunParts(ctx, tc.parts)
				if took := time.Since(began); took != tc.took || !errors.Is(err, tc.err) {
					t.Errorf("ended after %s with %v", took, err)
				}
				if err != nil && !strings.HasPrefix(err.Error(), "a: ") {
					t.Errorf("%v does not say which part", err)
				}
				cancel()
				synctest.Wait()
				time.Sleep(time.Hour) // the slow one ends, too
			})
		})
	}
}
