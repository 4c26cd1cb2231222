package snapshot

import (
	"context"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// scenario is a sequence of steps on snapshots. Its outcome must be the same with all pairings of
// programs.
type scenario struct {
	name string
	play func(*scene)
}

const (
	mainDriver     = "csi.example"
	listDriver     = "list.example"
	standardDriver = "standard.example"
	absentDriver   = "absent.example" // no sidecar serves it

	retain = snapshotv1.VolumeSnapshotContentRetain
	remove = snapshotv1.VolumeSnapshotContentDelete
)

// scenarios are all stories.
func scenarios() []scenario {
	return slices.Concat(dynamicScenarios(), failureScenarios(), classScenarios(), sourceScenarios(), staticScenarios(), deletionScenarios(), secretScenarios(), answerScenarios())
}

// simple is a bound claim and classes of both policies.
func (s *scene) simple() {
	s.pair("data", mainDriver)
	s.class("delete", mainDriver, remove, nil)
	s.class("retain", mainDriver, retain, nil)
}

func dynamicScenarios() (all []scenario) {
	for _, class := range []string{"delete", "retain"} {
		all = append(all,
			scenario{"ready-" + class, func(s *scene) {
				s.simple()
				s.ready(s.take("vs", class, "data"))
			}},
			scenario{"removed-" + class, func(s *scene) {
				s.simple()
				vs := s.take("vs", class, "data")
				s.ready(vs)
				s.delete(vs)
				s.gone(vs)
			}})
	}
	return append(all,
		scenario{"two-of-one-claim", func(s *scene) {
			s.simple()
			one, other := s.take("one", "delete", "data"), s.take("other", "retain", "data")
			s.ready(one)
			s.ready(other)
		}},
		scenario{"one-fails-one-is-ready", func(s *scene) {
			s.simple()
			s.ready(s.take("good", "delete", "data"))
			s.failed(s.take("bad", "absent", "data"))
		}},
		scenario{"foreign-marks-stay", func(s *scene) {
			s.simple()
			vs := s.take("vs", "delete", "data", func(vs *snapshotv1.VolumeSnapshot) {
				vs.Finalizers, vs.Labels, vs.Annotations = []string{"example.com/keep"}, map[string]string{"a": "b"}, map[string]string{"c": "d"}
			})
			s.ready(vs)
			s.delete(vs)
		}})
}

func failureScenarios() (all []scenario) {
	for _, code := range []codes.Code{
		codes.Internal, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.ResourceExhausted, codes.InvalidArgument,
		codes.FailedPrecondition, codes.NotFound, codes.Canceled, codes.PermissionDenied,
	} {
		all = append(all, scenario{"after-" + strings.ToLower(code.String()), func(s *scene) {
			s.main.set(s.own("data"), script{failures: []codes.Code{code}, size: 1 << 30})
			s.simple()
			s.ready(s.take("vs", "delete", "data"))
		}})
	}
	for _, class := range []string{"delete", "retain"} {
		for _, code := range []codes.Code{codes.Internal, codes.DeadlineExceeded} {
			all = append(all, scenario{"after-" + strings.ToLower(code.String()) + "-removed-" + class, func(s *scene) {
				s.main.set(s.own("data"), script{failures: []codes.Code{code, code}, size: 1 << 30})
				s.simple()
				vs := s.take("vs", class, "data")
				s.ready(vs)
				s.delete(vs)
				s.gone(vs)
			}})
		}
		all = append(all,
			scenario{"refused-" + class, func(s *scene) {
				s.main.set(s.own("data"), script{failures: []codes.Code{codes.InvalidArgument}, forever: true})
				s.simple()
				s.failed(s.take("vs", class, "data"))
			}},
			scenario{"refused-and-removed-" + class, func(s *scene) {
				s.main.set(s.own("data"), script{failures: []codes.Code{codes.InvalidArgument}, forever: true})
				s.simple()
				vs := s.take("vs", class, "data")
				s.failed(vs)
				s.delete(vs)
				s.gone(vs)
			}},
			scenario{"uncertain-and-removed-" + class, func(s *scene) { // SN-K1: the snapshot is looked for first
				s.main.set(s.own("data"), script{failures: []codes.Code{codes.DeadlineExceeded}, forever: true, made: true, size: 1 << 30})
				s.simple()
				vs := s.take("vs", class, "data")
				s.failed(vs)
				s.delete(vs)
				s.main.heal(s.own("data"))
				s.gone(vs)
			}})
	}
	return all
}

func classScenarios() []scenario {
	return []scenario{
		{"class-absent", func(s *scene) {
			s.simple()
			s.failed(s.take("vs", "absent", "data"))
		}},
		{"class-comes-later", func(s *scene) {
			s.simple()
			vs := s.take("vs", "later", "data")
			s.failed(vs)
			s.class("later", mainDriver, remove, nil)
			s.ready(vs)
		}},
		{"class-of-another-driver", func(s *scene) { // SN-H5
			s.simple()
			s.class("other", absentDriver, remove, nil)
			s.take("vs", "other", "data")
		}},
		{"default-class", func(s *scene) {
			s.pair("data", standardDriver)
			s.class("standard", standardDriver, remove, nil, names.AnnDefaultSnapshotClass)
			s.ready(s.take("vs", "", "data"))
		}},
		{"default-class-of-another-driver", func(s *scene) {
			s.pair("data", absentDriver)
			s.class("other", mainDriver, remove, nil)
			s.failed(s.take("vs", "", "data"))
		}},
		{"two-default-classes", func(s *scene) {
			driver := "twice.example"
			s.pair("data", driver)
			s.class("a", driver, remove, nil, names.AnnDefaultSnapshotClass)
			s.class("b", driver, retain, nil, names.AnnDefaultSnapshotClass)
			s.failed(s.take("vs", "", "data"))
		}},
		{"parameters-reach-the-driver", func(s *scene) {
			s.pair("data", mainDriver)
			s.class("p", mainDriver, remove, map[string]string{"a": "1", "b": "2"})
			s.ready(s.take("vs", "p", "data"))
		}},
		{"reserved-parameter", func(s *scene) {
			s.pair("data", mainDriver)
			s.class("p", mainDriver, remove, map[string]string{names.ParameterPrefix + "unknown": "1"})
			s.failed(s.take("vs", "p", "data"))
		}},
	}
}

func sourceScenarios() []scenario {
	return []scenario{
		{"claim-absent", func(s *scene) {
			s.simple()
			s.failed(s.take("vs", "delete", "absent"))
		}},
		{"claim-comes-later", func(s *scene) {
			s.simple()
			vs := s.take("vs", "delete", "later")
			s.failed(vs)
			s.pair("later", mainDriver)
			s.ready(vs)
		}},
		{"claim-is-bound-later", func(s *scene) {
			s.simple()
			claim := s.pending("late", nil)
			vs := s.take("vs", "delete", "late")
			s.failed(vs)
			s.volumeFor(claim)
			s.bind("late")
			s.ready(vs)
		}},
		{"claim-removed-when-ready", func(s *scene) {
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			claim := s.claim("data")
			until(s, claim, "free", func(c *corev1.PersistentVolumeClaim) bool {
				return !slices.Contains(c.Finalizers, names.FinalizerSnapshotClaim)
			})
			s.delete(claim)
			s.gone(claim)
		}},
		{"claim-removed-while-unready", func(s *scene) {
			s.main.set(s.own("data"), script{failures: []codes.Code{codes.DeadlineExceeded}, forever: true, size: 1 << 30})
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.failed(vs)
			s.delete(s.claim("data"))
			s.main.heal(s.own("data"))
			s.ready(vs)
			s.gone(s.claim("data"))
		}},
		{"volume-of-no-csi-driver", func(s *scene) {
			s.simple()
			s.plainPair("plain")
			s.failed(s.take("vs", "delete", "plain"))
		}},
	}
}

func (s *scene) claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
}

// restoring creates a claim that waits to be restored from a snapshot.
func (s *scene) restoring(name, snapshot string, byRef bool) {
	group := names.SnapshotGroup
	s.pending(name, func(spec *corev1.PersistentVolumeClaimSpec) {
		if byRef {
			spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: snapshot}
		} else {
			spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: snapshot}
		}
	})
	s.claimsSeen()
}

// claimsSeen waits until the controller has all claims that were created before, as it reads them from a
// cache: it has taken a snapshot of one that is newer.
func (s *scene) claimsSeen() {
	s.pair("newer", mainDriver)
	s.class("newer", mainDriver, retain, nil)
	until(s, s.take("newer", "newer", "newer"), "bound", func(vs *snapshotv1.VolumeSnapshot) bool {
		return vs.Status != nil && vs.Status.BoundVolumeSnapshotContentName != nil
	})
}

func deletionScenarios() []scenario {
	all := []scenario{
		{"removed-while-restored", func(s *scene) { // SN-D3
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.restoring("restored", "vs", false)
			s.delete(vs)
		}},
		{"removed-after-the-restore", func(s *scene) {
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.restoring("restored", "vs", false)
			s.delete(vs)
			until(s, vs, "kept", func(vs *snapshotv1.VolumeSnapshot) bool { return vs.DeletionTimestamp != nil })
			s.delete(s.claim("restored"))
			s.gone(vs)
		}},
		{"content-removed-by-hand", func(s *scene) { // SN-E4
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.delete(contentOf(vs))
		}},
		{"content-then-snapshot-removed", func(s *scene) {
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.delete(contentOf(vs))
			s.delete(vs)
			s.gone(vs)
		}},
		{"content-lost", func(s *scene) {
			s.simple()
			vs := s.take("vs", "retain", "data")
			s.ready(vs)
			s.delete(contentOf(vs))
			s.do(func(ctx context.Context) error {
				return s.Patch(ctx, contentOf(vs), merge(`{"metadata":{"finalizers":null}}`))
			})
			s.failed(vs)
		}},
		{"retained-content-removed-later", func(s *scene) { // SN-D8
			s.simple()
			vs := s.take("vs", "retain", "data")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
			s.delete(contentOf(vs))
			s.gone(contentOf(vs))
		}},
		{"policy-changed-to-retain", func(s *scene) { // SN-H16
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.do(func(ctx context.Context) error {
				return s.Patch(ctx, contentOf(vs), merge(`{"spec":{"deletionPolicy":"Retain"}}`))
			})
			s.delete(vs)
			s.gone(vs)
		}},
		{"policy-changed-to-delete", func(s *scene) {
			s.simple()
			vs := s.take("vs", "retain", "data")
			s.ready(vs)
			s.do(func(ctx context.Context) error {
				return s.Patch(ctx, contentOf(vs), merge(`{"spec":{"deletionPolicy":"Delete"}}`))
			})
			s.delete(vs)
			s.gone(vs)
		}},
	}
	for _, code := range []codes.Code{codes.Internal, codes.NotFound, codes.FailedPrecondition} {
		all = append(all, scenario{"removal-after-" + strings.ToLower(code.String()), func(s *scene) {
			s.main.set(s.own("data"), script{deletions: []codes.Code{code}, size: 1 << 30})
			s.simple()
			vs := s.take("vs", "delete", "data")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
		}})
	}
	return all
}
