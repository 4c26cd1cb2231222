package snapshot

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

func answerScenarios() []scenario {
	return []scenario{
		{"ready-after-two-polls", func(s *scene) {
			s.main.set(s.own("data"), script{unready: 2, size: 1 << 30})
			s.simple()
			s.ready(s.take("vs", "delete", "data"))
		}},
		{"removed-while-processed", func(s *scene) {
			s.main.set(s.own("data"), script{unready: 1 << 30, size: 1 << 30})
			s.simple()
			vs := s.take("vs", "delete", "data")
			until(s, vs, "taken", func(vs *snapshotv1.VolumeSnapshot) bool { return vs.Status != nil && vs.Status.CreationTime != nil })
			s.delete(vs)
			s.gone(vs)
		}},
		{"answer-without-a-size", func(s *scene) {
			s.main.set(s.own("data"), script{})
			s.simple()
			s.ready(s.take("vs", "delete", "data"))
		}},
		{"answer-without-a-time", func(s *scene) { // SN-H7
			s.main.set(s.own("data"), script{undated: true, size: 1 << 30})
			s.simple()
			s.ready(s.take("vs", "delete", "data"))
		}},
		{"answer-with-another-id", func(s *scene) { // SN-A12
			s.main.set(s.own("data"), script{renamed: true, unready: 1, size: 1 << 30})
			s.simple()
			s.ready(s.take("vs", "delete", "data"))
		}},
	}
}

func secretScenarios() []scenario {
	parameters := map[string]string{
		names.ParameterSnapshotterSecretName: "${volumesnapshot.name}-secret", names.ParameterSnapshotterSecretNamespace: "${volumesnapshot.namespace}",
	}
	prepare := func(s *scene) {
		s.pair("data", mainDriver)
		s.class("secret", mainDriver, remove, parameters)
	}
	return []scenario{
		{"secret", func(s *scene) {
			prepare(s)
			s.secret("vs-secret")
			vs := s.take("vs", "secret", "data")
			s.ready(vs)
			s.delete(vs)
			s.gone(vs)
		}},
		{"secret-comes-later", func(s *scene) {
			prepare(s)
			vs := s.take("vs", "secret", "data")
			s.failed(vs)
			s.secret("vs-secret")
			s.ready(vs)
		}},
		{"secret-gone-before-removal", func(s *scene) { // SN-E6
			prepare(s)
			s.secret("vs-secret")
			vs := s.take("vs", "secret", "data")
			s.ready(vs)
			s.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "vs-secret"}})
			s.delete(vs)
		}},
		{"secret-template-unknown", func(s *scene) {
			s.pair("data", mainDriver)
			s.class("secret", mainDriver, remove, map[string]string{
				names.ParameterSnapshotterSecretName: "${pvc.name}", names.ParameterSnapshotterSecretNamespace: "x",
			})
			s.failed(s.take("vs", "secret", "data"))
		}},
		{"secret-half-named", func(s *scene) {
			s.pair("data", mainDriver)
			s.class("secret", mainDriver, remove, map[string]string{names.ParameterSnapshotterSecretName: "x"})
			s.failed(s.take("vs", "secret", "data"))
		}},
	}
}
