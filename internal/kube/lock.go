package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// EndpointsLock is the leader election lock of the external-provisioner up to v1.6: an annotation
// on an Endpoints object (O-3). client-go no longer has it.
type EndpointsLock struct {
	Meta   metav1.ObjectMeta // name and namespace
	Client corev1client.EndpointsGetter
	Holder string

	// The Endpoints API is deprecated but still served, and it is the only lock that v1 reads.
	object *corev1.Endpoints //nolint:staticcheck // see above
}

var _ resourcelock.Interface = (*EndpointsLock)(nil)

// Get implements resourcelock.Interface.
func (l *EndpointsLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	object, err := l.Client.Endpoints(l.Meta.Namespace).Get(ctx, l.Meta.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	l.object = object
	record, raw := &resourcelock.LeaderElectionRecord{}, []byte(
		object.Annotations[resourcelock.LeaderElectionRecordAnnotationKey],
	)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, record); err != nil {
			return nil, nil, fmt.Errorf("annotation of %s: %w", l.Describe(), err)
		}
	}
	return record, raw, nil
}

// Create implements resourcelock.Interface.
func (l *EndpointsLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	l.object, err = l.Client.Endpoints(l.Meta.Namespace).
		Create(ctx, &corev1.Endpoints{ //nolint:staticcheck // see [EndpointsLock]
			ObjectMeta: metav1.ObjectMeta{
				Name: l.Meta.Name, Namespace: l.Meta.Namespace,
				Annotations: map[string]string{resourcelock.LeaderElectionRecordAnnotationKey: string(raw)},
			},
		}, metav1.CreateOptions{})
	return err
}

var errUnread = errors.New("the lock was not read yet")

// Update implements resourcelock.Interface. It fails when another client changed the object since it
// was read.
func (l *EndpointsLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.object == nil {
		return errUnread
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return err
	}
	changed := l.object.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, resourcelock.LeaderElectionRecordAnnotationKey, string(raw))
	changed, err = l.Client.Endpoints(l.Meta.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.object = changed
	return nil
}

// RecordEvent implements resourcelock.Interface. It does nothing: the other lock, a Lease, emits
// the events.
func (l *EndpointsLock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *EndpointsLock) Identity() string { return l.Holder }

// Describe implements resourcelock.Interface.
func (l *EndpointsLock) Describe() string { return l.Meta.Namespace + "/" + l.Meta.Name }

// unknownLeader is the holder that [BothLocks] reports while the two locks have different holders.
const unknownLeader = "leaderelection.k8s.io/unknown"

// BothLocks is held by a process that holds both locks. During an upgrade there are processes that
// know only the first lock and processes that know only the second one; neither may lead beside the
// holder of both. client-go's MultiLock is not enough: it reads the second lock again before it
// writes it, so it overwrites a holder that acquired it in between.
type BothLocks struct {
	First, Second resourcelock.Interface

	firstMissing, secondMissing bool
}

var _ resourcelock.Interface = (*BothLocks)(nil)

// Get implements resourcelock.Interface. While the two locks have different holders it returns
// [unknownLeader] and raw bytes that change with each renewal of either lock. So a process takes
// over only after both have not been renewed for a whole lease duration.
func (b *BothLocks) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	first, firstRaw, err := b.First.Get(ctx)
	b.firstMissing = apierrors.IsNotFound(err)
	if err != nil && !b.firstMissing {
		return nil, nil, err
	}
	second, secondRaw, secondErr := b.Second.Get(ctx)
	b.secondMissing = apierrors.IsNotFound(secondErr)
	if secondErr != nil && !b.secondMissing {
		return nil, nil, secondErr
	}
	raw := bytes.Join([][]byte{firstRaw, secondRaw}, []byte{','})
	switch {
	case b.firstMissing && b.secondMissing:
		return nil, nil, err
	case b.firstMissing || (!b.secondMissing && first.HolderIdentity == ""):
		return second, raw, nil
	case b.secondMissing || second.HolderIdentity == "" || second.HolderIdentity == first.HolderIdentity:
		return first, raw, nil
	}
	first.HolderIdentity = unknownLeader
	first.LeaseDurationSeconds = max(first.LeaseDurationSeconds, second.LeaseDurationSeconds)
	return first, raw, nil
}

// Create implements resourcelock.Interface.
func (b *BothLocks) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return b.Update(ctx, record)
}

// Update implements resourcelock.Interface. Each lock is written with the resourceVersion that Get
// has read. If the second write conflicts, only the first lock was written, which does not make
// this process the leader.
func (b *BothLocks) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := write(ctx, b.First, record, &b.firstMissing); err != nil {
		return err
	}
	return write(ctx, b.Second, record, &b.secondMissing)
}

func write(
	ctx context.Context, lock resourcelock.Interface, record resourcelock.LeaderElectionRecord, missing *bool,
) error {
	if !*missing {
		return lock.Update(ctx, record)
	}
	err := lock.Create(ctx, record)
	*missing = err != nil
	return err
}

// RecordEvent implements resourcelock.Interface.
func (b *BothLocks) RecordEvent(text string) { b.Second.RecordEvent(text) }

// Identity implements resourcelock.Interface.
func (b *BothLocks) Identity() string { return b.Second.Identity() }

// Describe implements resourcelock.Interface.
func (b *BothLocks) Describe() string { return b.Second.Describe() }
