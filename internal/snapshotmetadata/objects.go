package snapshotmetadata

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/snapshotmetadata/rules"
)

// requestTimeout bounds one read of an object.
const requestTimeout = 10 * time.Second

// NewReader returns a reader of the objects that a request needs. Reads are live, as upstream's:
// its role has no watch. The mapper has just these kinds, so that no discovery is read.
func NewReader(api *rest.Config) (client.Reader, error) {
	own := rest.CopyConfig(api)
	own.Timeout = requestTimeout
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshot"), meta.RESTScopeNamespace)
	mapper.Add(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotContent"), meta.RESTScopeRoot)
	mapper.Add(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass"), meta.RESTScopeRoot)
	mapper.Add(kube.MetadataServiceVersion.WithKind("SnapshotMetadataService"), meta.RESTScopeRoot)
	return client.New(own, client.Options{Scheme: kube.Scheme(), Mapper: mapper})
}

// target is what the driver is asked about.
type target struct {
	handle, base string // base is empty but for a delta
	secrets      map[string]string
}

// resolve returns the target of a request (CB-14).
func (s *Service) resolve(ctx context.Context, driver string, r rules.Request) (target, *rules.Refusal) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Snapshot}
	snapshot, err := kube.Get(ctx, s.cfg.Objects, key, &snapshotv1.VolumeSnapshot{})
	if err != nil {
		return target{}, unavailable("failed to get VolumeSnapshot", err)
	}
	name, refusal := rules.ContentOf(key, snapshot)
	if refusal != nil {
		return target{}, refusal
	}
	content, err := kube.Get(
		ctx, s.cfg.Objects, types.NamespacedName{Name: name}, &snapshotv1.VolumeSnapshotContent{},
	)
	if err != nil {
		return target{}, unavailable("failed to get VolumeSnapshotContent", err)
	}
	handle, refusal := rules.HandleOf(snapshot, content, driver)
	if refusal != nil {
		return target{}, refusal
	}
	if r.IsDelta {
		if refusal := s.checkBase(ctx, driver, r, rules.VolumeOf(content)); refusal != nil {
			return target{}, refusal
		}
	}
	secrets, refusal := s.secrets(ctx, driver, snapshot, content)
	return target{handle: handle, base: r.Base, secrets: secrets}, refusal
}

// checkBase reads the contents in pages until it has found the base (CB-H4). No selector finds one
// by its handle. volume is that of the target; empty if it is not known.
func (s *Service) checkBase(
	ctx context.Context, driver string, r rules.Request, volume string,
) *rules.Refusal {
	release, err := acquire(ctx, s.limits.lists)
	if err != nil {
		return unavailable("failed to list VolumeSnapshotContents", err)
	}
	defer release()
	check := rules.BaseCheck{Handle: r.Base, Driver: driver, Namespace: r.Namespace, Volume: volume}
	pages := kube.Pages(ctx, s.cfg.Objects, func() *snapshotv1.VolumeSnapshotContentList {
		return &snapshotv1.VolumeSnapshotContentList{}
	})
	for page, err := range pages {
		if err != nil {
			return unavailable("failed to list VolumeSnapshotContents", err)
		}
		for i := range page.Items {
			if check.Add(&page.Items[i]) {
				return check.Refusal()
			}
		}
	}
	return check.Refusal()
}

// secrets reads the secret of the snapshot's class; nil for none. An error names the secret and the
// account of this process, which are for the log alone.
func (s *Service) secrets(
	ctx context.Context, driver string,
	snapshot *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent,
) (map[string]string, *rules.Refusal) {
	class, refusal := s.class(ctx, driver, rules.ClassName(snapshot, content))
	if refusal != nil {
		return nil, refusal
	}
	ref, refusal := rules.SecretOf(class, client.ObjectKeyFromObject(snapshot), content.Name)
	if refusal != nil || ref.Name == "" {
		return nil, refusal
	}
	secrets, _, err := kube.SecretValues(ctx, s.cfg.Objects, ref)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "failed to get credentials")
		return nil, &rules.Refusal{Code: codes.Unavailable, Text: "failed to get credentials"}
	}
	return secrets, nil
}

// class returns the class with a name, or the default one of the driver; nil for none.
// Upstream's sample role may not read classes (CB-H1): drivers without secrets work with it too.
func (s *Service) class(
	ctx context.Context, driver string, name *string,
) (*snapshotv1.VolumeSnapshotClass, *rules.Refusal) {
	if name != nil {
		var class snapshotv1.VolumeSnapshotClass
		err := s.cfg.Objects.Get(ctx, types.NamespacedName{Name: *name}, &class)
		switch {
		case apierrors.IsForbidden(err):
			withoutSecret(ctx, err)
			return nil, nil
		case err != nil:
			return nil, unavailable("failed to get VolumeSnapshotClass", err)
		}
		return &class, rules.CheckClass(&class, driver)
	}
	var classes snapshotv1.VolumeSnapshotClassList
	err := s.cfg.Objects.List(ctx, &classes)
	switch {
	case apierrors.IsForbidden(err):
		withoutSecret(ctx, err)
		return nil, nil
	case err != nil:
		return nil, unavailable("failed to list VolumeSnapshotClasses", err)
	}
	return rules.DefaultClass(classes.Items, driver)
}

// withoutSecret logs that the driver is asked without a secret.
func withoutSecret(ctx context.Context, err error) {
	logr.FromContextOrDiscard(ctx).Info(
		"the account may not read VolumeSnapshotClasses; asking the driver without a secret", "problem", err.Error())
}

// audience returns the audience that tokens need: that of the flag, or that of the service's object
// (CB-5).
func (s *Service) audience(ctx context.Context, driver string) (string, *rules.Refusal) {
	if s.cfg.Audience != "" {
		return s.cfg.Audience, nil
	}
	var service kube.SnapshotMetadataService
	if err := s.cfg.Objects.Get(ctx, types.NamespacedName{Name: driver}, &service); err != nil {
		return "", failed(codes.Internal, "failed to find the SnapshotMetadataService CR for driver", err)
	}
	if service.Spec.Audience == "" {
		return "", &rules.Refusal{Code: codes.Internal, Text: "the SnapshotMetadataService CR has no audience"}
	}
	return service.Spec.Audience, nil
}

func unavailable(what string, err error) *rules.Refusal { return failed(codes.Unavailable, what, err) }

func failed(code codes.Code, what string, err error) *rules.Refusal {
	return &rules.Refusal{Code: code, Text: what + ": " + err.Error()}
}
