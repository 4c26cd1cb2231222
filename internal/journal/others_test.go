package journal

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// which requests of other nodes count.
func TestOthers(t *testing.T) {
	now := time.Now()
	lease := func(name, text string, renewed time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "crew", Name: name, Labels: map[string]string{names.LabelManagedBy: names.ManagedByPurser},
				Annotations: map[string]string{names.AnnIntents: text},
			},
			Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-renewed)}},
		}
	}
	text := func(n int) string {
		text, err := intent.Encode([]intent.Entry{entry(n)})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	foreign := lease("journal-a-n9", text(9), 0)
	foreign.Namespace = "other"
	api := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		lease("journal-a-n1", text(1), 0), lease("journal-a-n2", text(2), time.Hour), lease("journal-a-n3", text(3), 2*intent.MaxUnrenewed),
		lease("journal-b-n4", text(4), 0), lease("journal-a-n5", "", 0), foreign,
	).Build()
	others := Others{Live: api, Namespace: "crew", Prefix: "journal-a-", Own: "journal-a-n1"}
	got, err := others.Entries(t.Context(), now)
	if err != nil || len(got) != 1 || got[0].UID != entry(2).UID {
		t.Errorf("%+v, %v; want that of n2: n1 is this node, n3 is gone, and n4 has another driver", got, err)
	}
	if err := api.Create(t.Context(), lease("journal-a-n6", "unknown", 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := others.Entries(t.Context(), now); err == nil {
		t.Error("a journal that cannot be read counts as one without entries")
	}
	others.SkipUnreadable = true
	if got, err := others.Entries(t.Context(), now); err != nil || len(got) != 1 {
		t.Errorf("skipped by the flag: %v, %v", got, err)
	}
	others.SkipUnreadable = false
	if _, err := others.Entries(t.Context(), now.Add(2*intent.MaxUnrenewed)); err != nil {
		t.Errorf("one that is not renewed any more: %v", err)
	}
	others.Live = interceptor.NewClient(api, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
		},
	})
	if got, err := others.Entries(t.Context(), now); err != nil || len(got) > 0 {
		t.Errorf("forbidden: %v, %v", got, err)
	}
}
