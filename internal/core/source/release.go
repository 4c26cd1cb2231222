package source

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Verdict is what [Release] answers.
type Verdict = verdict.Verdict[Action]

// Action is one thing to do for a source. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

// Unprotect removes the provisioner's finalizer from this very source, unless a new user has come.
type Unprotect struct{}

func (Unprotect) action() {}

// Held is a source with what keeps it.
type Held struct {
	State
	Driver string
	Users  Users
}

// Users are what a source is kept for. The zero value is no user.
type Users struct {
	Claims []string // that wait for a volume from the source
	Calls  int      // in flight in this process
	// Requests are the content sources of the journal's requests, whose outcome is not known. The
	// claim of one may be gone.
	Requests []*csi.VolumeContentSource
}

// IsBusy reports whether there are users that are known without the handle of the source.
func (u Users) IsBusy() bool { return len(u.Claims) > 0 || u.Calls > 0 }

// Release says whether the finalizer of a source may be removed: when no volume is being made from
// it and no claim waits for one. That does not depend on whether the source is being deleted,
// and it counts all users. A finalizer of another driver's provisioner is left alone.
func Release(h Held) Verdict {
	object := h.Object()
	inUse := verdict.Wait[Action]{Finding: *refused(verdict.SourceInUse, "%s is kept for %s", h.Ref, h.user())}
	switch {
	case h.Users.IsBusy(): // whatever the object is like
		return inUse
	case h.Unread.Forbidden:
		return verdict.Refuse[Action]{Finding: *unread(h.State)}
	case object.GetUID() == "":
		return idle(verdict.SourceUnprotected, "%s does not exist", h.Ref)
	case !IsProtected(object, h.Ref):
		return idle(verdict.SourceUnprotected, "%s has no finalizer of the provisioner", h.Ref)
	case !h.isOurs():
		return idle(verdict.SourceNotOurs, "the finalizer of %s is not of driver %q", h.Ref, h.Driver)
	case h.user() != "":
		return inUse
	}
	then := idle(verdict.SourceReleased, "%s lost the finalizer %s", h.Ref, h.Ref.Finalizer())
	return verdict.Do[Action]{Finding: then.Because(), Actions: []Action{Unprotect{}}, Then: then}
}

// otherNodes is how often the requests of instances on other nodes are read while they keep a
// source: no event tells when one is resolved.
const otherNodes = 30 * time.Second

// AfterOthers says what follows when the requests of instances on other nodes are known, and their
// outcome is not; nil to go on.
func AfterOthers(h Held, requests []*csi.VolumeContentSource, now time.Time) Verdict {
	h.Users.Requests = append(slices.Clone(h.Users.Requests), requests...)
	switch v := Release(h).(type) {
	case verdict.Wait[Action]:
		v.Until = now.Add(otherNodes)
		return v
	case verdict.Do[Action]:
		return nil
	default:
		return v
	}
}

func idle(reason verdict.Reason, format string, args ...any) Verdict {
	return verdict.Nothing[Action]{Finding: *refused(reason, format, args...)}
}

// isOurs reports whether the provisioner of this driver put the finalizer on the source: volumes are
// made from a source by its own driver only.
//
// A snapshot whose content is gone can be restored by no driver, and a claim that names no volume
// cannot be cloned. If it is being deleted as well, its finalizer protects nothing, whichever
// provisioner put it.
func (h Held) isOurs() bool {
	switch {
	case h.Ref.IsSnapshot() && h.Content != nil:
		return h.Content.Spec.Driver == h.Driver
	case h.Ref.IsSnapshot():
		return h.Snapshot.DeletionTimestamp != nil
	case h.Claim.Spec.VolumeName == "" && h.Claim.DeletionTimestamp != nil:
		return true
	case h.Volume != nil:
		return h.Volume.Spec.CSI != nil && h.Volume.Spec.CSI.Driver == h.Driver
	}
	return h.Claim.Annotations[names.AnnStorageProvisioner] == h.Driver ||
		h.Claim.Annotations[names.AnnBetaStorageProvisioner] == h.Driver ||
		h.Claim.Annotations[names.AnnMigratedTo] == h.Driver
}

// user names what the source is kept for; empty for nothing.
func (h Held) user() string {
	handles := h.is
	switch {
	case len(h.Users.Claims) > 0:
		return "claim " + strings.Join(h.Users.Claims, ", ")
	case h.Users.Calls > 0:
		return fmt.Sprintf("%d calls in flight", h.Users.Calls)
	case slices.ContainsFunc(h.Users.Requests, handles):
		return "a CreateVolume call whose outcome is not known"
	}
	return ""
}

// is reports whether a request is for this source, by its handle.
func (h Held) is(c *csi.VolumeContentSource) bool {
	if h.Ref.IsSnapshot() {
		id := c.GetSnapshot().GetSnapshotId()
		return id != "" && id == SnapshotHandle(h.Content)
	}
	id := c.GetVolume().GetVolumeId()
	return id != "" && h.Volume != nil && h.Volume.Spec.CSI != nil && id == h.Volume.Spec.CSI.VolumeHandle
}

// Waits reports whether a claim without a volume may still get one from its source. A claim that is
// being deleted gets none that was not begun, and what was begun is in the journal.
func Waits(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}
