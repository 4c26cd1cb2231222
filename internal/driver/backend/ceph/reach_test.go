package ceph

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

const someKey = "AQBqsgFrhw8fERAA/N7Hmvz+OF9eKTlWFF0zeQ=="

var (
	fast = handle.Place{Kind: handle.RBD, Cluster: "ceph", Pool: "fast"}
	slow = handle.Place{Kind: handle.CephFS, Cluster: "ceph", Pool: "slow.1"}
	away = handle.Place{Kind: handle.RBD, Cluster: "other", Pool: "fast"}
)

// clusters gives what knows two clusters, and forgets what is in memory when
// it is asked for again.
func clusters(t *testing.T) (start func() *reach) {
	t.Helper()
	dir := t.TempDir()
	conf, places := filepath.Join(dir, "conf"), filepath.Join(dir, "places")
	for _, folder := range []string{conf, places} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, cluster := range []string{"ceph", "other"} {
		if err := os.WriteFile(filepath.Join(conf, cluster+confSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func() *reach { return newReach(conf, places) }
}

func secretsOf(t *testing.T, name, key string) context.Context {
	t.Helper()
	return backend.WithSecrets(t.Context(), backend.NewSecrets(map[string]string{"userID": name, "userKey": key}))
}

// answer is what a cluster says, whatever it is asked.
type answer struct{ err error }

func (a answer) Run(context.Context, command.Call) ([]byte, error) { return nil, a.err }

// ask lets a user do something at a place, which may refuse.
func ask(ctx context.Context, t *testing.T, r *reach, p handle.Place, says error) {
	t.Helper()
	access, err := r.access(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = witness{tools: answer{says}, reach: r, place: p}.Run(ctx, command.Call{Access: access})
}

// wantUser says who a request without secrets is; "" for none.
func wantUser(t *testing.T, r *reach, p handle.Place, want string) {
	t.Helper()
	a, err := r.access(t.Context(), p)
	if want == "" && !fault.Unready.Is(err) || want != "" && (err != nil || a.User != want) {
		t.Errorf("%s without secrets: %q, %v, want %q", p, a.User, err, want)
	}
}

func TestAMissingClusterIsNamed(t *testing.T) {
	dir := t.TempDir()
	r := newReach(dir, dir)
	if err := r.check(); !fault.Unready.Is(err) || !strings.Contains(err.Error(), "<cluster>.conf") {
		t.Errorf("no cluster: %v", err)
	}
	if _, err := r.access(t.Context(), fast); !fault.Unready.Is(err) || !strings.Contains(err.Error(), "ceph.conf") {
		t.Errorf("an unknown cluster: %v", err)
	}
	if err := clusters(t)().check(); err != nil {
		t.Error(err)
	}
}

// The user that was the last at a place lists it.
func TestARequestWithoutSecretsIsTheLastUsers(t *testing.T) {
	r := clusters(t)()
	wantUser(t, r, fast, "")
	for _, name := range []string{"node", "provisioner", "node"} {
		ask(secretsOf(t, name, someKey), t, r, fast, nil)
		wantUser(t, r, fast, name)
	}
	wantUser(t, r, slow, "")
}

// A wrong user in a class must not become the user for listing.
func TestARefusedUserIsNotRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		says error
		want string
	}{
		"let in":      {nil, "late"},
		"not there":   {fault.NotFound.Errorf("no such image"), "late"},
		"not known":   {fault.Unidentified.Errorf("no such user"), "early"},
		"not allowed": {fault.Forbidden.Errorf("not this"), "early"},
		"no answer":   {fault.Away.Errorf("nothing"), "early"},
	} {
		t.Run(name, func(t *testing.T) {
			r := clusters(t)()
			ask(secretsOf(t, "early", someKey), t, r, fast, nil)
			ask(secretsOf(t, "late", someKey), t, r, fast, test.says)
			wantUser(t, r, fast, test.want)
		})
	}
}

// A wrong key must not take the place of the right one.
func TestAWrongKeyIsNotRemembered(t *testing.T) {
	r := clusters(t)()
	ask(secretsOf(t, "csi", someKey), t, r, fast, nil)
	ask(secretsOf(t, "csi", strings.Repeat("x", 40)), t, r, fast, fault.Unidentified.Errorf("no"))
	if a, err := r.access(t.Context(), fast); err != nil || a.Key != command.NewKey(someKey) {
		t.Errorf("another key: %v", err)
	}
}

// After a restart the first key of a user is used for every place of that user, and for no other
// cluster.
func TestWhatIsKnownAfterARestart(t *testing.T) {
	start := clusters(t)
	r := start()
	for _, p := range []handle.Place{fast, slow, away} {
		ask(secretsOf(t, "csi", someKey), t, r, p, nil)
	}
	ask(secretsOf(t, "node", someKey), t, r, slow, nil)

	r = start()
	if all, err := r.places(); err != nil || len(all) != 3 {
		t.Errorf("places: %v, %v", all, err)
	}
	for _, p := range []handle.Place{fast, slow, away} {
		wantUser(t, r, p, "")
	}
	if _, err := r.access(t.Context(), slow); err == nil || !strings.Contains(err.Error(), "node, csi") {
		t.Errorf("%v, want who is missing", err)
	}
	ask(secretsOf(t, "csi", someKey), t, r, fast, nil)
	wantUser(t, r, fast, "csi")
	wantUser(t, r, slow, "csi")
	wantUser(t, r, away, "")
}

// A place is written to disk before anything is created there, in case of a crash.
func TestAPlaceIsKnownBeforeItIsUsed(t *testing.T) {
	start := clusters(t)
	if _, err := start().access(secretsOf(t, "csi", someKey), slow); err != nil {
		t.Fatal(err)
	}
	if all, err := start().places(); err != nil || len(all) != 1 || all[0] != slow {
		t.Errorf("places: %v, %v, want %s", all, err, slow)
	}
}

// A place whose record could not be written is not used, and the write is retried.
func TestAPlaceThatCannotBeNotedIsNotUsed(t *testing.T) {
	r := clusters(t)()
	if err := os.Remove(r.placesDir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.access(secretsOf(t, "csi", someKey), fast); !fault.Internal.Is(err) {
			t.Errorf("access: %v, want internal", err)
		}
	}
}

func TestNoKeyIsOnDisk(t *testing.T) {
	r := clusters(t)()
	ask(secretsOf(t, "csi", someKey), t, r, fast, nil)
	content, err := os.ReadFile(r.noteOf(fast))
	if err != nil || string(content) != "csi\n" {
		t.Errorf("on disk: %q, %v, want a name", content, err)
	}
}
