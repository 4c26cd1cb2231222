package populate

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	populate "github.com/purser-csi/purser/internal/populate/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/sources"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[populate.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key Key) (populate.Snapshot, error) {
	s := populate.Snapshot{Settings: c.Rules, UID: key.UID}
	var errs [4]error
	s.Claim, errs[0] = kube.GetSame(ctx, c.Cached, key, &corev1.PersistentVolumeClaim{})
	s.Prime, errs[1] = kube.Get(ctx, c.Cached, c.named(populate.PrimeName(key.UID)), &corev1.PersistentVolumeClaim{})
	s.Pod, errs[2] = kube.Get(ctx, c.Cached, c.named(populate.PodName(key.UID)), &corev1.Pod{})
	s.Volume, errs[3] = c.volume(ctx, s)
	if err := errors.Join(errs[:]...); err != nil {
		return s, err
	}
	if s.Claim != nil {
		errs[0] = c.readSource(ctx, &s)
		if class := objects.ClaimClass(s.Claim); class != "" {
			s.Class, errs[1] = kube.Get(ctx, c.Cached, types.NamespacedName{Name: class}, &storagev1.StorageClass{})
		}
	}
	c.readPod(ctx, &s)
	return s, errors.Join(errs[:]...)
}

func (c *Controller) named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Rules.Namespace, Name: name}
}

// volume returns the volume of the prime claim, or else the one that was given to the claim.
func (c *Controller) volume(ctx context.Context, s populate.Snapshot) (*corev1.PersistentVolume, error) {
	if s.Prime != nil && s.Prime.Spec.VolumeName != "" {
		name := types.NamespacedName{Name: s.Prime.Spec.VolumeName}
		return kube.Get(ctx, c.Cached, name, &corev1.PersistentVolume{})
	}
	if s.Claim == nil {
		return nil, nil
	}
	var given corev1.PersistentVolumeList
	err := c.Cached.List(ctx, &given, client.MatchingFields{indexGiven: string(s.UID)})
	if err != nil || len(given.Items) == 0 {
		return nil, err
	}
	return &given.Items[0], nil
}

// readSource reads the source of a claim without a pod, and whether the populator can serve it.
func (c *Controller) readSource(ctx context.Context, s *populate.Snapshot) error {
	ref, isOurs := c.Rules.SourceOf(s.Claim)
	if !isOurs || s.Pod != nil || s.Claim.Spec.VolumeName != "" {
		return nil
	}
	object, err := c.source(ctx, ref.NamespacedName)
	if err != nil || object == nil {
		return err
	}
	s.Source.Found = true
	if _, err := c.Populator.Pod(object, c.target(s.Claim)); err != nil {
		s.Source.Problem = err.Error()
		if invalid, is := errors.AsType[InvalidError](err); is {
			s.Source.Fix = invalid.Fix
		}
	}
	return nil
}

func (c *Controller) source(ctx context.Context, name types.NamespacedName) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.Populator.Source)
	return kube.Get(ctx, c.Sources, name, object)
}

// readPod reads how far the pod is, or how it ended.
func (c *Controller) readPod(ctx context.Context, s *populate.Snapshot) {
	switch status := podStatus(s.Pod); {
	case status.Phase == corev1.PodRunning && status.PodIP != "" && c.Progress != nil:
		if port := portOf(s.Pod); port != 0 {
			address := net.JoinHostPort(status.PodIP, strconv.Itoa(int(port)))
			if p, is := c.Progress(ctx, address); is {
				s.Progress = &p
			}
		}
	case status.Phase == corev1.PodFailed || status.Phase == corev1.PodSucceeded:
		s.Outcome = new(populate.OutcomeOf(s.Pod))
	}
}

func podStatus(of *corev1.Pod) corev1.PodStatus {
	if of == nil {
		return corev1.PodStatus{}
	}
	return of.Status
}

// Read implements reconcile.Reader.
func (c *Controller) Read(ctx context.Context, s populate.Snapshot, refs []verdict.Ref) (populate.Snapshot, error) {
	for _, ref := range refs {
		var err error
		switch ref.What {
		case populate.ReadGrants:
			s.HasGrants = true
			s.Grants, err = sources.Grants(ctx, c.Live, ref.Namespace)
		case populate.ReadClaim:
			s.IsLive = true
			s.LiveClaim, err = kube.Get(ctx, c.Live, c.claimName(s), &corev1.PersistentVolumeClaim{})
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// claimName returns the name of the user's claim, also when it is gone.
func (c *Controller) claimName(s populate.Snapshot) types.NamespacedName {
	if s.Claim != nil {
		return client.ObjectKeyFromObject(s.Claim)
	}
	if s.Prime != nil {
		name, _, _ := c.Rules.ClaimOf(s.Prime)
		return name
	}
	name, _, _ := c.Rules.ClaimOf(s.Pod)
	return name
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s populate.Snapshot, now time.Time) next { return populate.Decide(s, now) }

// About implements reconcile.Task.
func (c *Controller) About(key Key, s populate.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
	if s.Claim != nil {
		about.Object = s.Claim
	}
	return about
}
