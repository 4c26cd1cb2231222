package reclaim

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
)

func annotated(name, namespace string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Volume.Annotations[names.AnnDeletionSecretName] = name
		s.Volume.Annotations[names.AnnDeletionSecretNamespace] = namespace
	}
}

func classWith(keysAndValues ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Volume.Spec.StorageClassName = "fast"
		s.Volume.Spec.ClaimRef.Namespace, s.Volume.Spec.ClaimRef.Name = "crew", "logbook"
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driver, Parameters: map[string]string{}}
		for i := 0; i < len(keysAndValues); i += 2 {
			class.Parameters[keysAndValues[i]] = keysAndValues[i+1]
		}
		with(ReadClass, "fast", Answer{Class: class})(s)
	}
}

func TestDeletionSecret(t *testing.T) {
	byClass := classWith(names.ParameterProvisionerSecretName, "${pv.name}.${pvc.name}", names.ParameterProvisionerSecretNamespace, "${pvc.namespace}")
	own := classWith(names.ParameterSecretName, "s", names.ParameterSecretNamespace, "n", names.OwnParameterDeletionSecretName, "d", names.OwnParameterDeletionSecretNamespace, "m")
	byAnnotation := classWith(names.ParameterSecretName, "${pvc.annotations['a']}", names.ParameterSecretNamespace, "n")
	for _, tc := range []struct {
		row    string
		s      Snapshot
		secret string // namespace/name
		says   string // when refused
	}{
		{"D-15 AN-8 named", world(annotated("s", "n")), "n/s", ""},
		{"D-15 AN-8 none", world(annotated("", "")), "/", ""},
		{"D-15 AN-8 wins over the class (C-115, O-32)", world(byClass, annotated("s", "n")), "n/s", ""},
		{"D-15 AN-8 none wins over the class", world(byClass, annotated("", "")), "/", ""},
		{"D-15 exactly one is empty: name", world(annotated("", "n")), "", names.AnnDeletionSecretName + ` is ""`},
		{"D-15 exactly one is empty: namespace", world(annotated("s", "")), "", names.AnnDeletionSecretNamespace + ` is ""`},
		{"D-15 exactly one is there", world(func(s *Snapshot) { s.Volume.Annotations[names.AnnDeletionSecretName] = "s" }), "", names.AnnDeletionSecretNamespace},
		{"D-15 no name of a secret", world(annotated("../s", "n")), "", `"../s"`},
		{"D-15 from the class", world(byClass), "crew/pv.logbook", ""},
		{"D-15 O-32 from the class, its own for deletion", world(own), "m/d", ""},
		{"D-15 the class is gone", world(), "/", ""},
		{"D-15 the class is another driver's by now", world(byClass, func(s *Snapshot) { s.class().Provisioner = "other" }), "/", ""},
		{"D-15 U-47 #796 no claim reference", world(byClass, noClaim, deleting, listed), "/", ""},
		{"H-17 a template that needs the claim: an event that says what to do", world(byAnnotation), "", "Set the annotations " + names.AnnDeletionSecretName},
		{"H-17 it names class and parameter", world(byAnnotation), "", `StorageClass "fast" parameter ` + names.ParameterSecretName},
	} {
		t.Run(tc.row, func(t *testing.T) {
			v := decided(tc.s)
			if tc.says != "" {
				if shape(v) != "refuse VolumeInvalid" || !strings.Contains(v.Because().Text(), tc.says) {
					t.Errorf("got %s: %s", shape(v), v.Because().Text())
				}
				return
			}
			d, ok := v.(do)
			if !ok {
				t.Fatalf("got %s: %s", shape(v), v.Because().Text())
			}
			if got := d.Actions[0].(DeleteVolume).Secret.String(); got != tc.secret {
				t.Errorf("got %s, want %s", got, tc.secret)
			}
		})
	}
}

// D-15: the class is read only if the volume's annotations do not have the secret.
func TestClassIsAskedFor(t *testing.T) {
	classy := func(s *Snapshot) { s.Volume.Spec.StorageClassName = "fast" }
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want string
	}{
		{"D-15 annotations absent", world(classy), "read StorageClass/fast"},
		{"AN-6 the older way to name it", world(classy, func(s *Snapshot) { s.Volume.Annotations[names.AnnBetaStorageClass] = "old" }), "read StorageClass/old"},
		{"D-15 annotations there", world(classy, annotated("", "")), "read PersistentVolumes with the handle/h"},
		{"no class", world(), "read PersistentVolumes with the handle/h"},
	} {
		if got := shape(Decide(tc.s, tc.s.now)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.row, got, tc.want)
		}
	}
}

func TestAfterSecret(t *testing.T) {
	ref := types.NamespacedName{Namespace: "n", Name: "s"}
	for row, tc := range map[string]struct {
		f    SecretFailure
		says string
	}{
		"H-16 timeout":   {SecretFailure{Message: "timeout"}, `"n/s", which is needed to delete the volume, cannot be read: timeout`},
		"H-44 forbidden": {SecretFailure{Forbidden: true, Message: "no"}, `Role in namespace "n" with apiGroups [""], resources [secrets], verbs [get]`},
	} {
		v := AfterSecret(ref, tc.f)
		if shape(v) != "refuse VolumeSecretUnreadable" || !strings.Contains(v.Because().Text(), tc.says) {
			t.Errorf("%s: %s: %s", row, shape(v), v.Because().Text())
		}
	}
	failed := AfterDelete(DeleteVolume{Handle: "h", Secret: ref}, csispec.Failure{Code: codes.Unauthenticated, Secret: ref})
	if got := failed.Because().Text(); !strings.Contains(got, `"n/s" does not exist`) {
		t.Errorf("D-15: %q does not say that the call had no credentials", got)
	}
}
