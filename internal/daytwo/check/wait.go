package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bound waits until a claim has a volume, and notes the volume.
func (r *run) bound(ctx context.Context, name string) error {
	claim := &corev1.PersistentVolumeClaim{}
	return r.until(ctx, func(ctx context.Context) (string, error) {
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, claim); err != nil {
			return "", err
		}
		if claim.Spec.VolumeName != "" {
			r.volumes[claim.Spec.VolumeName] = true
		}
		if claim.Status.Phase == corev1.ClaimBound {
			return "", nil
		}
		return fmt.Sprintf("pvc/%s is %s%s", name, claim.Status.Phase, r.lastEvent(ctx, claim.UID)), nil
	})
}

// lastEvent returns the message of the last warning about an object.
func (r *run) lastEvent(ctx context.Context, uid types.UID) string {
	var events corev1.EventList
	if err := r.Client.List(ctx, &events, client.InNamespace(r.Namespace)); err != nil {
		return ""
	}
	about := slices.DeleteFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.UID != uid || e.Type != corev1.EventTypeWarning
	})
	if len(about) == 0 {
		return ""
	}
	last := slices.MaxFunc(about, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return ": " + last.Reason + ": " + strings.TrimSpace(last.Message)
}

// stopped is an error that waiting does not change.
type stopped struct{ error }

// until waits until missing returns an empty text.
func (r *run) until(ctx context.Context, missing func(context.Context) (string, error)) error {
	return waitUntil(ctx, r.Poll, missing)
}

func waitUntil(ctx context.Context, poll time.Duration, missing func(context.Context) (string, error)) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last := "nothing happened"
	for {
		left, err := missing(ctx)
		switch {
		case err == nil && left == "":
			return nil
		case errors.As(err, new(stopped)) || errors.As(err, new(skipped)):
			return err
		case err == nil:
			last = left
		case ctx.Err() == nil:
			last = err.Error()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("not done in time: %s", last)
		}
	}
}
