package attacher

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
)

// A failure that has no code, or another one, does not keep the code of the failure before: with
// ResourceExhausted a kubelet rejects the pod. Metadata of an earlier attachment does not stay either.
func TestStatusKeepsNothingOfTheAttemptBefore(t *testing.T) {
	exhausted := int32(codes.ResourceExhausted)
	r := newRig(t, interceptor.Funcs{}, clusterWith(va("a", func(v *storagev1.VolumeAttachment) {
		v.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(time.Unix(1, 0)), Message: "full", ErrorCode: &exhausted}
		v.Status.AttachmentMetadata = map[string]string{"old": "1", "both": "1"}
	}))...)
	r.disks.err = status.Error(codes.Internal, "no")
	r.run("a")
	if failed := r.attachment("a").Status.AttachError; failed == nil || failed.ErrorCode != nil && *failed.ErrorCode == exhausted {
		t.Fatalf("%+v", failed)
	}
	r.must(r.fail(t.Context(), r.attachment("a"), publishing.MarkFailed{Message: "no driver"}))
	if failed := r.attachment("a").Status.AttachError; failed == nil || failed.ErrorCode != nil || failed.Message != "no driver" {
		t.Fatalf("%+v", failed)
	}
	for _, now := range []map[string]string{{"both": "2", "new": "1"}, {}} {
		s := publishing.Snapshot{Attachment: r.attachment("a")}
		if _, err := r.Apply(t.Context(), s, publishing.MarkAttached{Metadata: now}); err != nil {
			t.Fatal(err)
		}
		got := r.attachment("a").Status
		if !maps.Equal(got.AttachmentMetadata, now) {
			t.Errorf("metadata %v, want %v", got.AttachmentMetadata, now)
		}
		if got.AttachError != nil {
			t.Errorf("%+v", got.AttachError)
		}
	}
}
