package explain

import (
	"slices"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	binding "github.com/purser-csi/purser/internal/binder/rules"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	resizing "github.com/purser-csi/purser/internal/resize/rules"

	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// said is what a controller writes about one decision: the words of its event, or of its log.
type said struct {
	reason       verdict.Reason
	words, event string
}

// recorder decides about each snapshot that explain gathers, as the controller does.
type recorder struct {
	rules.Gatherer
	now  time.Time
	said []said
}

func (r *recorder) note(f verdict.Finding) {
	r.said = append(r.said, said{f.Reason, f.Text(), verdict.Describe(f.Reason).Event})
}

func (r *recorder) Binding(key binding.Key) (binding.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Binding(key)
	if err == nil {
		r.note(binding.Decide(s).Because())
		s.InProcess = true // purser plane
		r.note(binding.Decide(s).Because())
		s.InProcess = false
	}
	return s, unread, err
}

func (r *recorder) Provisioning(
	key provision.Key, driver provision.Driver, o provision.Options,
) (provision.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Provisioning(key, driver, o)
	if err == nil {
		r.note(provision.Decide(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Reclaim(volume string, driver reclaim.Driver) (reclaim.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Reclaim(volume, driver)
	if err == nil {
		r.note(reclaim.Decide(s, r.now).Because())
	}
	return s, unread, err
}

// Attachment notes the finding about each node, and the events on pods.
func (r *recorder) Attachment(key attachment.Key) (attachment.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Attachment(key)
	for node := range s.Nodes {
		decided, told := attachment.OnNode(s, node, r.now)
		r.note(decided)
		r.said = append(r.said, said{decided.Reason, told, string(attachment.Failed)})
	}
	return s, unread, err
}

func (r *recorder) Publishing(
	va *storagev1.VolumeAttachment, driver publishing.Driver,
) (publishing.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Publishing(va, driver)
	if err == nil {
		r.note(publishing.Decide(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Snapshot(key types.NamespacedName) (snapshotting.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Snapshot(key)
	if err == nil {
		r.note(snapshotting.DecideSnapshot(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Content(
	content *snapshotv1.VolumeSnapshotContent, o snapshotting.ContentSettings,
) (snapshotting.ContentSnapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Content(content, o)
	if err == nil {
		r.note(snapshotting.DecideContent(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Group(key types.NamespacedName) (snapshotting.Group, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Group(key)
	if err == nil {
		r.note(snapshotting.DecideSnapshot(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) GroupContent(
	content *groupv1.VolumeGroupSnapshotContent, o snapshotting.ContentSettings,
) (snapshotting.GroupContent, []rules.Kind, error) {
	s, unread, err := r.Gatherer.GroupContent(content, o)
	if err == nil {
		r.note(snapshotting.DecideContent(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Resizing(key objects.ClaimKey, driver resizing.Driver) (resizing.Snapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Resizing(key, driver)
	if err == nil {
		r.note(resizing.Decide(s, r.now).Because())
	}
	return s, unread, err
}

func (r *recorder) Modification(
	key objects.ClaimKey, driver resizing.AttributesDriver,
) (resizing.AttributesSnapshot, []rules.Kind, error) {
	s, unread, err := r.Gatherer.Modification(key, driver)
	if err == nil {
		r.note(resizing.DecideAttributes(s, r.now).Because())
	}
	return s, unread, err
}

// What explain says a controller says is what the controller says: each finding that comes from a
// decision has the words and the event of a decision over the same objects, and one with the reason of
// such a decision does not go without. Both reasons have a page.
func TestWordsAreTheDecisions(t *testing.T) {
	base, all := readSituations(t)
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	proven, reasons := 0, map[verdict.Reason]bool{}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			cluster := s.cluster(t, base)
			r := &recorder{Gatherer: cluster.Gather, now: at}
			cluster.Gather = r
			found := map[verdict.Reason]bool{}
			for _, report := range cluster.Stuck("") {
				for _, f := range report.Findings {
					r.check(t, f)
					found[f.Decision] = f.Decision != ""
				}
			}
			if delete(found, ""); len(found) > 0 {
				proven++
			}
			for reason := range found {
				reasons[reason] = true
			}
		})
	}
	t.Logf("%d of %d situations have findings from decisions, with %d reasons", proven, len(all), len(reasons))
	if proven == 0 {
		t.Error("no situation has a finding that comes from a decision")
	}
}

func (r *recorder) check(t *testing.T, f rules.Finding) {
	t.Helper()
	decided := slices.ContainsFunc(r.said, func(s said) bool { return s.reason == f.Reason })
	switch {
	case f.Decision == "" && decided:
		t.Errorf("%s of %s is a decision's reason, and the finding does not have its words", f.Reason, f.Object)
	case f.Decision == "" && f.Words != "":
		t.Errorf("%s of %s has words without a decision: %q", f.Reason, f.Object, f.Words)
	case f.Decision != "" && !slices.Contains(r.said, said{f.Decision, f.Words, f.Event}):
		t.Errorf("%s of %s: explain says that %s has the event %q %q; the controllers say %q",
			f.Reason, f.Object, f.Decision, f.Event, f.Words, r.said)
	}
	for _, reason := range []verdict.Reason{f.Reason, f.Decision} {
		if reason != "" && !verdict.IsDocumented(reason) {
			t.Errorf("%s has no section in docs/reasons.md", reason)
		}
	}
}
