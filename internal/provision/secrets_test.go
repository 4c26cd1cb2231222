package provision

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// R-59, U-48: no value of a secret is in a log line, an event, an error, a metric, a record or an
// object, whatever the driver says.
func TestSecretValuesStayInTheCall(t *testing.T) {
	for _, tc := range []struct {
		row   string
		setup func(*rig)
		event string // part of one; empty for none that warns
	}{
		{"R-5 the driver creates", func(*rig) {}, ""},
		{"R-59 uncertain answer that echoes", func(r *rig) { r.driver.create = codes.Unavailable }, "cannot log in with"},
		{"R-59 final answer that echoes", func(r *rig) { r.driver.create = codes.Internal }, "cannot log in with"},
		{"R-59 infeasible answer that echoes", func(r *rig) { r.driver.create = codes.InvalidArgument }, "cannot log in with"},
		{"R-59 too small a volume, and the deletion echoes", func(r *rig) { r.driver.capacity, r.driver.remove = 1, codes.Internal }, "cannot log in with"},
		{"R-59 base64 echoed", func(r *rig) {
			r.driver.create = codes.Internal
			r.driver.echo = func(map[string]string) string { return "bad data aHVudGVyMi10aGUtbWFya2Vy" }
		}, "bad data [redacted]"},
		{"R-59 one line of a key echoed", func(r *rig) {
			r.driver.create = codes.Internal
			r.driver.echo = func(map[string]string) string { return "no key: MIIEvQIBADANBgkqhkiG9w0" }
		}, "no key: [redacted]"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(t)
			tc.setup(r)
			r.run(t)
			if len(r.driver.created) != 1 || r.driver.created[0]["password"] != marker {
				t.Errorf("the driver got %v", r.driver.created)
			}
			for _, secrets := range r.driver.deleted {
				if secrets["password"] != marker {
					t.Errorf("O-32: the driver got %v to delete", secrets)
				}
			}
			if !strings.Contains(r.said.String(), "csi request") {
				t.Error("the log is not captured")
			}
			if last := r.events[len(r.events)-1]; !strings.Contains(last, tc.event) || strings.HasPrefix(last, "Warning") != (tc.event != "") {
				t.Errorf("events %q", r.events)
			}
			if len(r.records) != 1 || r.records[0].Request.GetSecrets() != nil {
				t.Errorf("recorded %v", r.records)
			}
			r.silent(t)
		})
	}
}

// EV-2, EV-3: the event has the gRPC error as upstream writes it, since alerts match its code.
func TestFinalErrorIsLoggedWithItsCode(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.ResourceExhausted: "Warning ProvisioningFailed rpc error: code = ResourceExhausted desc = no [redacted]",
		codes.Unavailable:       "Warning ProvisioningFailed rpc error: code = Unavailable desc = no [redacted]",
		codes.InvalidArgument: "Warning ProvisioningFailed Volume provisioning failed with infeasible error. Retries will be delayed. " +
			"rpc error: code = InvalidArgument desc = no [redacted]",
	} {
		r := newRig(t)
		r.driver.create, r.driver.echo = code, func(s map[string]string) string { return "no " + s["password"] }
		r.run(t)
		if got := r.events[len(r.events)-1]; got != want {
			t.Errorf("events %q, want %q", got, want)
		}
	}
}

func refuseSecrets(err error) func(client.Object) error {
	return func(o client.Object) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "Secret" {
			return err
		}
		if _, is := o.(*corev1.Secret); is {
			return err
		}
		return nil
	}
}

func TestUnreadableSecrets(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, tc := range []struct {
		row   string
		setup func(*testing.T, *rig)
		event string // empty for none
	}{
		{"C-62 H-44 missing", func(t *testing.T, r *rig) {
			if err := r.api.Delete(t.Context(), secret("create")); err != nil {
				t.Fatal(err)
			}
		}, `Warning ProvisioningFailed secret "vault/create", which the StorageClass names for CreateVolume, does not exist`},
		{"C-62 H-44 U-42 forbidden", func(_ *testing.T, r *rig) {
			r.refuse = refuseSecrets(apierrors.NewForbidden(secrets, "create", errors.New("no")))
		}, `Give its service account a Role in namespace "vault" with apiGroups [""], resources [secrets], verbs [get]`},
		{"C-62 the API server does not answer: that passes", func(_ *testing.T, r *rig) {
			r.refuse = refuseSecrets(apierrors.NewTimeoutError("busy", 1))
		}, ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := newRig(t)
			tc.setup(t, r)
			if again := r.run(t); again == 0 {
				t.Error("not tried again")
			}
			if len(r.driver.created) > 0 || len(r.records) > 0 {
				t.Errorf("called %d times, recorded %d", len(r.driver.created), len(r.records))
			}
			if tc.event == "" && len(r.events) > 0 || tc.event != "" && !strings.Contains(strings.Join(r.events, "\n"), tc.event) {
				t.Errorf("events %q", r.events)
			}
		})
	}
}

// C-62: the secret is deleted between the read and the call. No request was sent, so no journal
// entry may stay.
func TestSecretGoesBeforeTheCall(t *testing.T) {
	r := newRig(t)
	r.secrets.saw(secretRef, "1", r.clock.Now())
	if err := r.api.Delete(t.Context(), secret("create")); err != nil {
		t.Fatal(err)
	}
	r.run(t)
	if len(r.records) != 1 || r.journal.Len() != 0 || len(r.driver.created) != 0 {
		t.Errorf("recorded %d, left %d, called %d", len(r.records), r.journal.Len(), len(r.driver.created))
	}
	if _, remembered := r.secrets.get(secretRef, r.clock.Now()); remembered {
		t.Error("the secret that is gone is remembered")
	}
}

// for a value that is not UTF-8 the event names secret and key, and no journal entry stays,
// since no call was made.
func TestSecretThatIsNotUTF8(t *testing.T) {
	r := newRig(t)
	unfit := secret("create")
	unfit.Data["key.der"] = []byte(marker + "\xff")
	if err := r.api.Update(t.Context(), unfit); err != nil {
		t.Fatal(err)
	}
	if again := r.run(t); again == 0 || len(r.driver.created) > 0 || r.journal.Len() != 0 {
		t.Errorf("again in %s, called %d times, %d left in the journal", again, len(r.driver.created), r.journal.Len())
	}
	if last := r.events[len(r.events)-1]; !strings.HasPrefix(last, "Warning ProvisioningFailed") || !strings.Contains(last, `"vault/create"`) || !strings.Contains(last, `"key.der"`) {
		t.Errorf("events %q", last)
	}
	r.silent(t)
}

// H-43: an edit of the secret ends the wait of a slowly retried claim, although secrets are not
// watched.
func TestEditedSecretCutsTheWait(t *testing.T) {
	r := newRig(t)
	r.driver.create = codes.InvalidArgument
	again := r.run(t)
	if again <= 0 || again > time.Minute {
		t.Fatalf("requeued after %s", again)
	}
	pass := func() { r.clock.SetTime(r.clock.Now().Add(again)) }
	pass()
	if again = r.run(t); len(r.driver.created) != 1 || again <= 0 || again > time.Minute {
		t.Fatalf("asked %d times, requeued after %s", len(r.driver.created), again)
	}
	edited := secret("create")
	edited.Data["password"] = []byte("better")
	if err := r.api.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	pass()
	r.driver.create = codes.OK
	if r.run(t); len(r.driver.created) != 2 || r.driver.created[1]["password"] != "better" {
		t.Errorf("asked with %v", r.driver.created)
	}
}

// Without secrets none is asked for: upstream's role does not allow it.
func TestNoSecretNoRead(t *testing.T) {
	r := newRig(t, func(class *storagev1.StorageClass) { class.Parameters = nil })
	r.refuse = refuseSecrets(errors.New("asked for a secret"))
	if again := r.run(t); again != 0 || len(r.driver.created) != 1 {
		t.Errorf("again in %s, created %d: %q", again, len(r.driver.created), r.events)
	}
}

func TestSecretVersionsAreSwept(t *testing.T) {
	v := newSecretVersions()
	for i := range 2 * manySecrets {
		v.saw(types.NamespacedName{Name: fmt.Sprint(i)}, "1", time.Unix(int64(i)*60, 0))
	}
	if len(v.seen) > manySecrets {
		t.Errorf("%d versions are kept", len(v.seen))
	}
}
