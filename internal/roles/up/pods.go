package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/mount"
)

// podInterval is how often terminating pods are listed.
const podInterval = 500 * time.Millisecond

// podRemover removes terminating pods of the nodes, which have no kubelet to do so. A pod stays as
// long as one of its volumes is published below the data folder. Without this, deleted pods and
// their claims would stay Terminating for ever.
type podRemover struct {
	api    *rest.Config    // of the administrator
	nodes  map[string]bool // by name
	folder string          // data folder; the volumes of a pod are published below pods/UID in it
}

// run removes pods until ctx ends.
func (r podRemover) run(ctx context.Context) error {
	cache, err := ctrlcache.New(r.api, ctrlcache.Options{Scheme: kube.Scheme(), DefaultTransform: kube.TrimPod})
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	writer, err := client.New(r.api, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cache.Start(ctx) }()
	ticker := time.NewTicker(podInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			if err := r.removeAll(ctx, cache, writer); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Info("terminating pods stay for now", "problem", err.Error())
			}
		}
	}
}

// removeAll removes the pods that are terminating and have no published volume.
func (r podRemover) removeAll(ctx context.Context, cached client.Reader, writer client.Writer) error {
	var pods corev1.PodList
	if err := cached.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil || !r.nodes[pod.Spec.NodeName] {
			continue
		}
		published, err := r.hasPublished(pod.UID)
		if err == nil && !published {
			uid := client.Preconditions{UID: &pod.UID}
			err = client.IgnoreNotFound(writer.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), uid))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", client.ObjectKeyFromObject(pod), err))
		}
	}
	return errors.Join(errs...)
}

// hasPublished reports whether a volume of the pod is published: a mount, or a link that stands in
// for one.
func (r podRemover) hasPublished(uid types.UID) (bool, error) {
	folder := filepath.Join(r.folder, "pods", string(uid))
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	mounts, err := mount.Below(folder)
	if err != nil || len(mounts) > 0 {
		return len(mounts) > 0, err
	}
	hasLink := false
	err = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink != 0 {
			hasLink = true
			return fs.SkipAll
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // unpublished meanwhile
		return false, nil
	}
	return hasLink, err
}
