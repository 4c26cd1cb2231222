package reclaim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// for a value that is not UTF-8 the event names secret and key, and the driver is not called
// without the secret.
func TestSecretThatIsNotUTF8(t *testing.T) {
	r := newRig(nil, releasedVolume(func(pv *corev1.PersistentVolume) {
		pv.Annotations[names.AnnDeletionSecretName], pv.Annotations[names.AnnDeletionSecretNamespace] = "delete", "vault"
	}), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "delete"}, Data: map[string][]byte{"key.der": []byte(marker + "\xff")},
	})
	if again := r.run(t); again == 0 || len(r.driver.deleted) > 0 {
		t.Errorf("again in %s, called %d times", again, len(r.driver.deleted))
	}
	told := strings.Join(r.events, "\n")
	if !strings.Contains(told, `"vault/delete"`) || !strings.Contains(told, `"key.der"`) || strings.Contains(told, marker) {
		t.Errorf("events %q", told)
	}
}
