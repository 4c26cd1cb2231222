package provision

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// class sets parameters of the class, given as key, value, key, value.
func class(keysAndValues ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		for i := 0; i < len(keysAndValues); i += 2 {
			s.Class.Parameters[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
}

func provisionerSecret(s *Snapshot) {
	class(names.ParameterProvisionerSecretName, "s-${pvc.name}", names.ParameterProvisionerSecretNamespace, "vault")(s)
}

func access(a Access) func(*Snapshot) { return func(s *Snapshot) { s.Secret.Access = a } }

func TestDecideSecrets(t *testing.T) {
	for _, tc := range []struct {
		row    string
		s      Snapshot
		reason verdict.Reason
		says   []string
	}{
		{"C-62 R-40 secret that can be read", world(provisionerSecret, access(Readable)), verdict.Provisioning, nil},
		{"C-62 R-40 secret that was not read: the call will", world(provisionerSecret), verdict.Provisioning, nil},
		{"C-62 H-44 secret is missing", world(provisionerSecret, access(Missing)), verdict.SecretMissing, []string{"vault/s-logbook", "does not exist"}},
		{"C-62 H-44 U-42 secret may not be read: the missing rule is named", world(provisionerSecret, access(Forbidden)), verdict.SecretForbidden, []string{"vault/s-logbook", `namespace "vault"`, "resources [secrets], verbs [get]"}},
		{"C-62 H-44 and the words of the API server", world(provisionerSecret, func(s *Snapshot) {
			s.Secret = Secret{Access: Forbidden, Refusal: `User "system:serviceaccount:a:b" cannot get; to allow it: kubectl`}
		}), verdict.SecretForbidden, []string{`by the provisioner: User "system:serviceaccount:a:b" cannot get; to allow it: kubectl`}},
		{"R-58 a missing secret of another kind is not looked for", world(class(names.ParameterNodeStageSecretName, "s", names.ParameterNodeStageSecretNamespace, "n"), access(Missing)), verdict.Provisioning, nil},
		{"C-62 R-57 a bad template of any kind names the parameter", world(class(names.ParameterNodePublishSecretName, "${who}", names.ParameterNodePublishSecretNamespace, "n")), verdict.ClassInvalid, []string{`StorageClass "fast"`, names.ParameterNodePublishSecretName, "who", "${pvc.name}"}},
		{"C-62 O-32 so does one of the deletion secret", world(class(names.OwnParameterDeletionSecretName, "s")), verdict.ClassInvalid, []string{names.OwnParameterDeletionSecretName, names.OwnParameterDeletionSecretNamespace}},
		{"C-63 comes before the secret is looked at: all of the class is checked first", world(provisionerSecret, access(Missing), class("csi.storage.k8s.io/colour", "red")), verdict.ClassInvalid, []string{"csi.storage.k8s.io/colour", names.ParameterNodeExpandSecretName}},
		{"C-62 comes before C-63", world(class("csi.storage.k8s.io/colour", "red", names.ParameterSecretName, "s")), verdict.ClassInvalid, []string{names.ParameterSecretNamespace}},
		{"C-58 comes before C-62", world(class(names.ParameterSecretName, "s"), func(s *Snapshot) {
			s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"}
		}), verdict.ClaimInvalid, nil},
		{"C-57 comes before C-58", world(class("fstype", "a", "FSTYPE", "b"), func(s *Snapshot) {
			s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"}
		}), verdict.ClassInvalid, nil},
		{"R-30 a key of ours that is not known", world(class("purser/colour", "red")), verdict.ClassInvalid, []string{"purser/colour", names.OwnParameterMinimumSize}},
		{"H-47 an unresolved call is repeated whatever became of the secret", world(pending, provisionerSecret, access(Missing)), verdict.Provisioning, nil},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got := settled(tc.s, time.Time{}).Because()
			if got.Reason != tc.reason {
				t.Errorf("reason = %s (%s), want %s", got.Reason, got.Text(), tc.reason)
			}
			for _, part := range tc.says {
				if !strings.Contains(got.Text(), part) {
					t.Errorf("%q does not say %q", got.Text(), part)
				}
			}
		})
	}
}

func TestDecideMinimumSize(t *testing.T) {
	xfs := class(names.ParameterFSType, "XFS")
	option := func(s *Snapshot) { s.Options.MinVolumeSize = map[string]int64{"xfs": 2 << 30} }
	for _, tc := range []struct {
		row    string
		s      Snapshot
		reason verdict.Reason
		says   string
	}{
		{"R-2 more than a request can have", world(xfs, func(s *Snapshot) {
			s.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20E")}
		}), verdict.ClaimInvalid, "perhaps 20G is meant"},
		{"O-30 off by default", world(xfs), verdict.Provisioning, ""},
		{"O-30 below the limit of its filesystem", world(xfs, option), verdict.ClaimTooSmall, "storage: 1Gi is less than 2Gi, the least that --min-volume-size allows for XFS"},
		{"O-30 another filesystem", world(option), verdict.Provisioning, ""},
		{"O-30 the default filesystem counts", world(option, func(s *Snapshot) { s.Options.DefaultFSType = "xfs" }), verdict.ClaimTooSmall, "2Gi"},
		{"O-30 exactly the limit", world(xfs, func(s *Snapshot) { s.Options.MinVolumeSize = map[string]int64{"xfs": 1 << 30} }), verdict.Provisioning, ""},
		{"O-30 block has no filesystem", world(xfs, option, func(s *Snapshot) {
			s.Claim.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}), verdict.Provisioning, ""},
		{"O-30 R-2 no size at all", world(xfs, option, func(s *Snapshot) { s.Claim.Spec.Resources = corev1.VolumeResourceRequirements{} }), verdict.ClaimTooSmall, "storage: 0 is less"},
		{"O-30 the class's own limit", world(class(names.OwnParameterMinimumSize, "1500Mi")), verdict.ClaimTooSmall, `StorageClass "fast" allows`},
		{"O-30 the class's own limit wins", world(xfs, option, class(names.OwnParameterMinimumSize, "0")), verdict.Provisioning, ""},
		{"O-30 the class's own limit is no size", world(class(names.OwnParameterMinimumSize, "big")), verdict.ClassInvalid, `"big" is not a size`},
		{"O-30 C-58 comes first", world(xfs, option, func(s *Snapshot) {
			s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"}
		}), verdict.ClaimInvalid, ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got := settled(tc.s, time.Time{}).Because()
			if got.Reason != tc.reason || !strings.Contains(got.Text(), tc.says) {
				t.Errorf("got %s (%s), want %s with %q", got.Reason, got.Text(), tc.reason, tc.says)
			}
		})
	}
}

// exactly the known keys are kept from the driver.
func TestParametersForTheDriver(t *testing.T) {
	s := world(class("fstype", "xfs", "csiNodeStageSecretName", "s", "csiNodeStageSecretNamespace", "n", names.OwnParameterMinimumSize, "1Mi"))
	for _, key := range secretref.Known() {
		s.Class.Parameters[key] = "n"
	}
	delete(s.Class.Parameters, names.ParameterNodeStageSecretName)
	delete(s.Class.Parameters, names.ParameterNodeStageSecretNamespace)
	request, finding := NewRequest(s)
	if finding != nil {
		t.Fatal(finding.Text())
	}
	got := slices.Sorted(maps.Keys(request.GetParameters()))
	if diff := cmp.Diff([]string{"csiNodeStageSecretName", "csiNodeStageSecretNamespace", "fstype", "tier"}, got); diff != "" {
		t.Error(diff)
	}
}

// what is recorded and what is decided refer to the secret and hold no value.
func TestDecideCarriesReferences(t *testing.T) {
	v := settled(world(provisionerSecret, access(Readable)), time.Time{}).(do)
	create := v.Actions[1].(CreateVolume)
	want := types.NamespacedName{Namespace: "vault", Name: "s-logbook"}
	if got := create.Secrets.Of(secretref.Provisioner); got != want {
		t.Errorf("call: %s", got)
	}
	if entry := v.Actions[0].(Record).Entry; entry.Secrets != create.Secrets || entry.Request.GetSecrets() != nil {
		t.Errorf("record: %+v", entry)
	}
	repeated := settled(world(noClaim, func(s *Snapshot) { e := v.Actions[0].(Record).Entry; s.Pending = &e }), time.Time{}).(do)
	if got := repeated.Actions[1].(CreateVolume).Secrets; got != create.Secrets {
		t.Errorf("C-91: repeated with %v", got)
	}
}

func TestNewVolumeSecrets(t *testing.T) {
	s := world(class(names.ParameterSecretName, "default", names.ParameterSecretNamespace, "vault"),
		class(names.ParameterNodeStageSecretName, "stage", names.ParameterNodeStageSecretNamespace, "vault"))
	build := func(s Snapshot) *corev1.PersistentVolume {
		t.Helper()
		entry, finding := entryOf(s)
		if finding != nil {
			t.Fatal(finding.Text())
		}
		return NewVolume(s, CreateVolume{Request: entry.Request, Secrets: entry.Secrets}, &csi.Volume{VolumeId: "h"})
	}
	fallback := &corev1.SecretReference{Namespace: "vault", Name: "default"}
	source := build(s).Spec.CSI
	for row, got := range map[string]*corev1.SecretReference{
		"P-7 R-41": source.ControllerPublishSecretRef, "P-7 R-43": source.NodePublishSecretRef,
		"P-7 R-44": source.ControllerExpandSecretRef, "P-7 R-45": source.NodeExpandSecretRef,
	} {
		if diff := cmp.Diff(fallback, got); diff != "" {
			t.Errorf("%s:\n%s", row, diff)
		}
	}
	if got := source.NodeStageSecretRef; got.Name != "stage" {
		t.Errorf("P-7 R-42: %v", got)
	}
	own := class(names.OwnParameterDeletionSecretName, "del", names.OwnParameterDeletionSecretNamespace, "vault")
	for _, tc := range []struct {
		row                          string
		s                            Snapshot
		deletion, modify, parameters string
	}{
		{"AN-8 both are written and empty without a secret", world(), "/", "", ""},
		{"AN-8 R-40 the provisioner's", world(provisionerSecret), "vault/s-logbook", "", ""},
		{"AN-8 AN-9 R-47 the default", s, "vault/default", "vault/default", ""},
		{"O-32 AN-8 the class's own for deletion", world(provisionerSecret, own), "vault/del", "", ""},
		{"AN-9 R-46 its own", world(class(names.ParameterControllerModifySecretName, "m", names.ParameterControllerModifySecretNamespace, "n")), "/", "n/m", ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			have := build(tc.s).Annotations
			name, hasName := have[names.AnnDeletionSecretName]
			namespace, hasNamespace := have[names.AnnDeletionSecretNamespace]
			if !hasName || !hasNamespace || namespace+"/"+name != tc.deletion {
				t.Errorf("deletion: %v", have)
			}
			modify, modifies := have[names.AnnControllerModifySecret]
			if modifies != (tc.modify != "") || modifies && have[names.AnnControllerModifySecretNS]+"/"+modify != tc.modify {
				t.Errorf("modify: %v", have)
			}
		})
	}
}

// O-32: a volume that no claim wants is deleted with the secret for deletion.
func TestDiscardSecret(t *testing.T) {
	entry := newDraft(world(provisionerSecret, class(names.OwnParameterDeletionSecretName, "del", names.OwnParameterDeletionSecretNamespace, "vault"))).entry
	v := AfterCreate(world(noClaim), CreateVolume{Request: entry.Request, Secrets: entry.Secrets}, Answer{Volume: &csi.Volume{VolumeId: "h", CapacityBytes: 1 << 30}})
	if got := v.(do).Actions[0].(DiscardVolume).Secret; got.Name != "del" {
		t.Errorf("got %s", got)
	}
}

func TestAfterSecret(t *testing.T) {
	ref := types.NamespacedName{Namespace: "vault", Name: "s"}
	for _, tc := range []struct {
		row    string
		s      Snapshot
		access Access
		want   string
	}{
		{"C-62 missing: nothing was sent, so nothing stays in the journal", world(), Missing, "Resolve then refuse SecretMissing"},
		{"C-62 forbidden", world(), Forbidden, "Resolve then refuse SecretForbidden"},
		{"H-47 missing, and an earlier attempt may have been sent", world(pending), Missing, "refuse SecretMissing"},
		{"C-62 not known: the API server did not answer", world(), Unknown, "Resolve then refuse WriteFailed"},
		{"H-47 not known, and an earlier attempt may have been sent", world(pending), Unknown, "refuse WriteFailed"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(AfterSecret(tc.s, ref, Secret{Access: tc.access})); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// no request is sent with a value that is not UTF-8, so only an earlier journal entry stays.
func TestAfterUnfitSecret(t *testing.T) {
	ref := types.NamespacedName{Namespace: "vault", Name: "s"}
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"R-5 nothing was sent":                           {world(), "Resolve then refuse SecretUnfit"},
		"H-47 R-5 an earlier attempt may have been sent": {world(pending), "refuse SecretUnfit"},
		"H-15 R-5 an earlier attempt was refused":        {world(pending, refused(1)), "Note then refuse SecretUnfit"},
	} {
		v := AfterUnfitSecret(tc.s, ref, "key.der")
		if got := shape(v); got != tc.want {
			t.Errorf("%s: got %s, want %s", row, got, tc.want)
		}
		if text := v.Because().Text(); !strings.Contains(text, `"vault/s"`) || !strings.Contains(text, `"key.der"`) {
			t.Errorf("%s: %s", row, text)
		}
	}
}

// H-43: a change of the secret, or of what it is resolved from, ends a delay; upstream waits on.
func TestDecideRetryStateSecret(t *testing.T) {
	now := time.Unix(1000, 0)
	readable := func(version string) func(*Snapshot) {
		return func(s *Snapshot) { s.Secret = Secret{Access: Readable, Version: version} }
	}
	held := RetryState{NotBefore: now.Add(5 * time.Minute), Inputs: Inputs(world(provisionerSecret, readable("1")))}
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want verdict.Reason
	}{
		{"H-43 the same", world(provisionerSecret, readable("1")), verdict.WaitForRetry},
		{"H-43 secret edited", world(provisionerSecret, readable("2")), verdict.Provisioning},
		{"H-43 another secret", world(class(names.ParameterSecretName, "t", names.ParameterSecretNamespace, "n"), readable("1")), verdict.Provisioning},
	} {
		t.Run(tc.row, func(t *testing.T) {
			tc.s.Retry = held
			v := settled(tc.s, now)
			if got := v.Because().Reason; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if w, waits := v.(wait); waits && w.Until != now.Add(secretRecheck) {
				t.Errorf("requeued at %s", w.Until)
			}
		})
	}
	slow := func(secrets secretref.Set) time.Duration {
		return AfterCreate(world(), CreateVolume{Secrets: secrets}, Answer{Failure: &csispec.Failure{Code: codes.InvalidArgument}}).(do).Then.(refuse).Look
	}
	entry, _ := entryOf(world(provisionerSecret))
	if slow(entry.Secrets) != secretRecheck || slow(secretref.Set{}) != 0 {
		t.Error("only a claim with a secret is looked at while it waits")
	}
}
