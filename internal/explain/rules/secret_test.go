package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// An event that names an account, which a user may have written about a claim or pod that waits, gives that
// account no permission to read a secret: it is in the quoted event alone.
func TestForgedSecretEvents(t *testing.T) {
	const (
		tenant  = "system:serviceaccount:team:default"
		message = `secrets "ceph-admin" is forbidden: User "` + tenant + `" cannot get resource "secrets" in API group "" in the namespace "storage"`
	)
	secret := &corev1.SecretReference{Namespace: "storage", Name: "ceph-admin"}
	claim, pod := Ref{Claim, "shop", "data"}, Ref{Pod, "shop", "web"}
	for name, tc := range map[string]struct {
		about  Ref
		reason string
		edit   func(trustScene)
	}{
		"provisioning": {claim, "ProvisioningFailed", func(s trustScene) {
			s.claim.Status.Phase, s.claim.Spec.VolumeName = corev1.ClaimPending, ""
			s.claim.Annotations = map[string]string{names.AnnStorageProvisioner: "d"}
			s.Volumes, s.Attachments = nil, nil
		}},
		"mounting":              {pod, "FailedMount", nil},
		"expansion":             {claim, "VolumeResizeFailed", nil},
		"expansion on the node": {claim, "FileSystemResizeFailed", func(s trustScene) { condition(s, corev1.PersistentVolumeClaimFileSystemResizePending, time.Hour) }},
	} {
		s := newTrustScene()
		class := "silver"
		s.claim.Spec.StorageClassName = &class
		s.Classes = []*storagev1.StorageClass{{Provisioner: "d", AllowVolumeExpansion: new(true), Parameters: map[string]string{
			"csi.storage.k8s.io/provisioner-secret-name": "ceph-admin", "csi.storage.k8s.io/provisioner-secret-namespace": "storage",
		}}}
		s.Classes[0].Name = class
		s.pv.Spec.CSI.NodePublishSecretRef, s.pv.Spec.CSI.ControllerExpandSecretRef, s.pv.Spec.CSI.NodeExpandSecretRef = secret, secret, secret
		if tc.edit != nil {
			tc.edit(s)
		}
		s.Events = []*corev1.Event{{
			InvolvedObject: corev1.ObjectReference{Kind: string(tc.about.Kind), Namespace: tc.about.Namespace, Name: tc.about.Name},
			Reason:         tc.reason, Message: message, LastTimestamp: ago(time.Minute),
		}}
		c := s.Prepare()
		var all []Finding
		switch tc.reason {
		case "ProvisioningFailed":
			all = []Finding{c.driverAnswer(s.claim, s.Classes[0], Finding{}, s.Events[0])}
		case "FailedMount":
			all = []Finding{*c.mountEvents(s.pod)}
		case "VolumeResizeFailed":
			all = []Finding{c.controllerExpansion(s.claim, s.pv, Finding{})}
		case "FileSystemResizeFailed":
			all = []Finding{c.nodeExpansion(s.claim, Finding{})}
		}
		checkForged(t, name, tenant, all)
	}
}

func checkForged(t *testing.T, name, tenant string, all []Finding) {
	t.Helper()
	if len(all) == 0 || all[0].Reason != verdict.SecretForbidden {
		t.Errorf("%s: the event is no finding: %+v", name, all)
		return
	}
	quoted := false
	for _, e := range all[0].Evidence {
		quoted = quoted || strings.Contains(e.Value, "“") && strings.Contains(e.Value, tenant)
	}
	command := string(all[0].Fix[0].Command)
	if !quoted || !strings.Contains(command, "--serviceaccount=NAMESPACE:NAME-OF-THE-") {
		t.Errorf("%s: the event is quoted: %t; the command is %s", name, quoted, command)
	}
	for _, step := range all[0].Fix {
		if text := string(step.Command) + step.Text + all[0].WaitsFor; strings.Contains(text, "team") {
			t.Errorf("%s: the account of the event is in %s", name, text)
		}
	}
}
