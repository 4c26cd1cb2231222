package scale

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// newNamespace is that of the claims and pods that are created while programs are measured.
const newNamespace = "new"

// observer records when new claims are bound, volumes attached and both gone. It watches from the newest
// state on and only what is new, so that it costs the same in both clusters.
type observer struct {
	bound    runner.Times // claims
	attached runner.Times // volumes by their PersistentVolume, which is the handle too
	detached runner.Times // volumes
	deleted  runner.Times // volumes

	mu      sync.Mutex
	volumes map[string]string // of bound claims
	ended   error             // of a watch; nil while all last
}

// observe watches until ctx ends, on connections of its own.
func observe(ctx context.Context, r *runner.Run) (*observer, error) {
	api, err := client.NewWithWatch(
		kube.DedicatedTransport(r.Cluster.RESTConfig()), client.Options{Scheme: r.API.Scheme()},
	)
	if err != nil {
		return nil, err
	}
	o := &observer{volumes: map[string]string{}}
	for _, one := range []struct {
		list client.ObjectList
		see  func(watch.Event)
		opts []client.ListOption
	}{
		{&corev1.PersistentVolumeClaimList{}, o.sawClaim, []client.ListOption{client.InNamespace(newNamespace)}},
		{&corev1.NodeList{}, o.sawNode, []client.ListOption{client.HasLabels{labelNew}}},
		{&corev1.PersistentVolumeList{}, o.sawVolume, nil},
		{&storagev1.VolumeAttachmentList{}, o.sawAttachment, nil},
	} {
		if err := o.follow(ctx, api, one.list, one.see, one.opts...); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// follow watches a kind from its newest state on. The API server ends a watch now and then, for one as too
// slow; the next goes on where it ended.
func (o *observer) follow(
	ctx context.Context, api client.WithWatch, list client.ObjectList, see func(watch.Event), opts ...client.ListOption,
) error {
	if err := api.List(ctx, list, append(opts, client.Limit(1))...); err != nil {
		return err
	}
	version := list.GetResourceVersion()
	begin := func() (watch.Interface, error) {
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
		return api.Watch(ctx, list, append(slices.Clone(opts), from)...)
	}
	events, err := begin()
	if err != nil {
		return err
	}
	go func() {
		for ; err == nil; events, err = begin() {
			for event := range events.ResultChan() {
				object, ok := event.Object.(client.Object)
				if !ok {
					err = apierrors.FromObject(event.Object)
					break
				}
				version = object.GetResourceVersion()
				see(event)
			}
			events.Stop()
			if err != nil {
				break
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended = fmt.Errorf("the watch of %T has ended: %w", list, err)
	}()
	return nil
}

func (o *observer) sawClaim(event watch.Event) {
	claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Status.Phase != corev1.ClaimBound {
		return
	}
	o.mu.Lock()
	o.volumes[claim.Name] = claim.Spec.VolumeName
	o.mu.Unlock()
	o.bound.Add(claim.Name)
}

func (o *observer) sawNode(event watch.Event) {
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return
	}
	for _, v := range node.Status.VolumesAttached {
		if _, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
			o.attached.Add(handle)
		}
	}
}

func (o *observer) sawVolume(event watch.Event) {
	if pv, ok := event.Object.(*corev1.PersistentVolume); ok && event.Type == watch.Deleted {
		o.deleted.Add(pv.Name)
	}
}

func (o *observer) sawAttachment(event watch.Event) {
	if va, ok := event.Object.(*storagev1.VolumeAttachment); ok && event.Type == watch.Deleted {
		o.detached.Add(*va.Spec.Source.PersistentVolumeName)
	}
}

// volumeOf returns the volume of a bound claim.
func (o *observer) volumeOf(claim string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.volumes[claim]
}

// await waits until each of the names has a time.
func (o *observer) await(ctx context.Context, what string, times *runner.Times, all []string) error {
	err := runner.Until(ctx, len(all), func(context.Context) (n int, err error) {
		for _, name := range all {
			if _, seen := times.At(name); seen {
				n++
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		return n, o.ended
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
