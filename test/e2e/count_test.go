package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// Without faults there is one call to the driver per operation, no write without effect, and one
// event for each fact. The test runs before the parallel tests, whose requests would be counted
// too.
func TestCounts(t *testing.T) {
	const many = 50
	s := shared(t)
	b := newTestNamespace(t, s)
	earlier, err := s.Audit().Mark(t.Context())
	must(t, err)
	b.passBy(t, "first")           // afterwards the provisioner has sent the requests of its start
	untilDeleted(t, s, earlier, 1) // and the log has them
	calls := csiCalls(t)
	began := time.Now()
	begin, err := s.Audit().Mark(t.Context())
	must(t, err)

	var claims []*corev1.PersistentVolumeClaim
	for i := range many {
		claims = append(claims, b.claim(t, fmt.Sprintf("claim-%d", i), ""))
	}
	var volumes []*corev1.PersistentVolume
	for _, claim := range claims {
		volumes = append(volumes, b.awaitBound(t, claim))
	}
	for _, claim := range claims {
		b.mustHaveOneEventEach(t, claim)
		b.delete(t, claim)
	}
	for _, pv := range volumes {
		b.awaitGone(t, pv)
	}

	want := scrape.Calls{"CreateVolume": many, "DeleteVolume": many}
	if diff := cmp.Diff(want, csiCalls(t).Since(calls)); diff != "" {
		t.Errorf("calls to the driver:\n%s", diff)
	}
	mustBeLean(t, untilDeleted(t, s, begin, many), many, time.Since(began))
}

// untilDeleted waits until so many deletions of PersistentVolumes and removals of their finalizers
// are in the audit log, and returns the requests of the provisioner since a mark. Other clients see
// the deletion slightly before the log has it.
func untilDeleted(t *testing.T, s *stage.Stage, begin audit.Mark, many int) (ours audit.Tally) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		end, err := s.Audit().Mark(ctx)
		if err != nil {
			return err
		}
		tally, err := s.Audit().Between(begin, end)
		if err != nil {
			return err
		}
		ours = tally.By(provisioner)
		for _, verb := range []string{"delete", "patch"} {
			done := ours.Where(func(r audit.Request) bool { return r.Verb == verb && r.Resource == "persistentvolumes" })
			if done.All() < many {
				return fmt.Errorf("%d of %d requests to %s are answered", done.All(), many, verb)
			}
		}
		return nil
	})
	return ours
}

// mustBeLean fails the test unless there are one create, one delete and one patch of each
// PersistentVolume, nothing else but writes of the journal, and no failed request. How many claims
// share a write of the journal depends on the machine, but each claim needs at most two, besides one in
// each [journalPause] for the entries that no other write has taken along.
func mustBeLean(t *testing.T, ours audit.Tally, many int, took time.Duration) {
	t.Helper()
	got := map[string]int{}
	for request, answers := range ours.Where(func(r audit.Request) bool { return r.Verb != "watch" && !r.IsEvent() && !r.IsDiscovery() }) {
		got[request.Verb+" "+request.Resource] += answers.All()
	}
	if journal := got[journalWrite]; journal > 2*many+1+int(took/journalPause) {
		t.Errorf("%d writes of the journal for %d claims in %s", journal, many, took)
	}
	delete(got, journalWrite)
	want := map[string]int{"create persistentvolumes": many, "delete persistentvolumes": many, "patch persistentvolumes": many}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests of the provisioner:\n%s", diff)
	}
	if vain := ours.Where(audit.Request.IsWrite).Answered(404, 409); vain > 0 {
		t.Errorf("%d writes of the provisioner were answered with 404 or 409: %v", vain, ours)
	}
}

const (
	journalWrite = "update leases"
	// journalPause is that of internal/journal.
	journalPause = 5 * time.Second
)

func csiCalls(t *testing.T) (calls scrape.Calls) {
	t.Helper()
	eventually(t, func(ctx context.Context) (err error) { // the provisioner may start to listen shortly after `up` is ready
		calls, err = scrape.CSICalls(ctx, common.metrics)
		return err
	})
	return calls
}

// mustHaveOneEventEach waits for the events, which are written in the background.
func (b testNamespace) mustHaveOneEventEach(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	b.awaitEvent(t, claim, builtIn, corev1.EventTypeNormal, "ProvisioningSucceeded", "")
	told, err := b.events(t.Context(), claim, builtIn)
	must(t, err)
	got := map[string]int32{}
	for _, e := range told {
		got[e.Reason] += e.Count
	}
	if diff := cmp.Diff(map[string]int32{"Provisioning": 1, "ProvisioningSucceeded": 1}, got); diff != "" {
		t.Errorf("events about %s:\n%s", claim.Name, diff)
	}
}

// A second reconcile of an unchanged claim sends no requests.
func TestUnchangedClaimCausesNoRequests(t *testing.T) {
	s := shared(t)
	b := newTestNamespace(t, s)
	claim := b.claim(t, "claim", "")
	b.awaitBound(t, claim)
	b.mustHaveOneEventEach(t, claim)
	began := time.Now()
	begin, err := s.Audit().Mark(t.Context())
	must(t, err)
	// A change without meaning for the provisioner enqueues the claim. It is a patch, since the
	// condition Unused may be written at the same time.
	before := claim.DeepCopy()
	claim.Labels = map[string]string{"colour": "red"}
	must(t, b.Client.Patch(t.Context(), claim, client.MergeFrom(before)))
	b.passBy(t, "meanwhile")
	mustBeLean(t, untilDeleted(t, s, begin, 1), 1, time.Since(began)) // the requests of passBy
}
