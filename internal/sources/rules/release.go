package source

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the result of [Release].
type Verdict = verdict.Verdict[Action]

// Action is an action on a source. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

// Unprotect removes the provisioner's finalizer from the source with this uid, unless it has a new
// user.
type Unprotect struct{}

func (Unprotect) action() {}

// What a decision asks for, see [verdict.Ref].
const (
	// ReadSource is the source with its volume or content, read live. A source that is in use is not read:
	// each of its users enqueues it once more.
	ReadSource = "source"
	// ReadOthers are the unresolved requests of instances on other nodes, read live.
	ReadOthers = "requests of other nodes"
	// ReadUsers is everything anew, because there are users that the snapshot does not have.
	ReadUsers = "users of the source"
)

// Held is a source with the users for which its finalizer stays.
type Held struct {
	State          // of a clone, until IsLive, the cached claim alone
	IsLive    bool // State was read live
	IsKnown   bool // State is as this process wrote it when it added the finalizer
	Driver    string
	Users     Users
	PerNode   bool      // instances on other nodes have journals of their own
	HasOthers bool      // Others was read
	Others    []Request // the unresolved requests in these journals
}

// Users are the users of a source. The zero value means none.
type Users struct {
	Claims []string // claims that wait for a volume from the source
	Calls  int      // CreateVolume calls in flight in this process
	Begun  int      // how many calls this process has begun by then
	// Requests are the unresolved requests in the journal. The claim of such
	// a request may be gone.
	Requests []Request
}

// Request is an unresolved CreateVolume request with a source.
type Request struct {
	Content *csi.VolumeContentSource
	Volume  string // the name of the volume
	Claim   types.NamespacedName
	Secret  types.NamespacedName // that the call needs; empty for none
}

// IsBusy reports whether the source has waiting claims or calls in flight. The users in Requests
// can be matched only by the handle of the source.
func (u Users) IsBusy() bool { return len(u.Claims) > 0 || u.Calls > 0 }

// Release decides whether the finalizer of a source is removed: when no volume is being made from
// it and no claim waits for one. All users count. It does not matter whether the source is
// being deleted. The finalizer of another driver's provisioner stays.
//
// What this process wrote when it added the finalizer is enough: the driver and the handle do not change,
// and the API server refuses the write if the object is not the one of then.
func Release(h Held, now time.Time) Verdict {
	object := h.Object()
	inUse := verdict.Wait[Action]{Finding: h.inUse()}
	switch {
	case h.Users.IsBusy(): // whatever the object is like
		return inUse
	case !h.IsLive && (!h.IsKnown || h.withOthers().user() != ""): // a source in use may be going by now, and says so
		return h.ask(ReadSource)
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
	case h.PerNode && !h.HasOthers:
		return h.ask(ReadOthers)
	case h.withOthers().user() != "":
		return verdict.Wait[Action]{Finding: h.withOthers().inUse(), Until: now.Add(otherNodes)}
	}
	then := idle(verdict.SourceReleased, "%s lost the finalizer %s", h.Ref, h.Ref.Finalizer())
	return verdict.Do[Action]{Finding: then.Because(), Actions: []Action{Unprotect{}}, Then: then}
}

// otherNodes is the interval at which the journals of instances on other nodes are read while their
// requests use a source. There is no event when such a request is resolved.
const otherNodes = 30 * time.Second

// withOthers returns the source with the requests of instances on other nodes among its users.
func (h Held) withOthers() Held {
	h.Users.Requests = slices.Concat(h.Users.Requests, h.Others)
	return h
}

func (h Held) ask(what string) Verdict {
	return verdict.MustRead[Action](verdict.Ref{What: what, Namespace: h.Ref.Namespace, Name: h.Ref.Name})
}

// BeforeUnprotect returns what replaces [Unprotect] while no call can begin; nil for nothing. begun is how
// many calls this process has begun by now: one that the snapshot does not have may use the source, or may
// have left a request.
func BeforeUnprotect(h Held, begun int) Verdict {
	if begun != h.Users.Begun {
		return h.ask(ReadUsers)
	}
	return nil
}

func idle(reason verdict.Reason, format string, args ...any) Verdict {
	return verdict.Nothing[Action]{Finding: *refused(reason, format, args...)}
}

// isOurs reports whether the provisioner of this driver added the finalizer to the source. Only the
// driver of a source makes volumes from it.
//
// No driver can restore a snapshot whose content is gone, or clone a claim that names no volume. If
// such a source is being deleted, its finalizer protects nothing. Then isOurs is true, whichever
// provisioner added it.
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

// inUse returns the finding about a source with users. If the source is being deleted, an event names
// them.
func (h Held) inUse() verdict.Finding {
	finding := *refused(verdict.SourceInUse, "%s is kept for %s", h.Ref, h.user())
	if h.Object().GetDeletionTimestamp() == nil {
		return finding
	}
	finding.Reason = verdict.SourceDeletionAwaits
	i := slices.IndexFunc(h.Users.Requests, h.is)
	if h.Users.IsBusy() || i < 0 {
		return finding
	}
	finding.Fix = "The provisioner repeats the call until the driver gives a final answer"
	if secret := h.Users.Requests[i].Secret; secret.Name != "" {
		finding.Fix += fmt.Sprintf("; it needs Secret %s: if that is gone, create it again", secret)
	}
	finding.Fix += fmt.Sprintf(". If the storage system has no volume of that name and no copy is being made, remove "+
		"the finalizer %s by hand",
		h.Ref.Finalizer())
	return finding
}

// user returns a description of the users of the source; empty if it has none.
func (h Held) user() string {
	i := slices.IndexFunc(h.Users.Requests, h.is)
	switch {
	case len(h.Users.Claims) > 0:
		return "claim " + strings.Join(h.Users.Claims, ", ")
	case h.Users.Calls > 0:
		return fmt.Sprintf("%d calls in flight", h.Users.Calls)
	case i >= 0:
		r := h.Users.Requests[i]
		return fmt.Sprintf(
			"a CreateVolume call whose outcome is not known, of volume %s for claim %s", r.Volume, r.Claim,
		)
	}
	return ""
}

// is reports whether a request has the handle of this source.
func (h Held) is(r Request) bool {
	c := r.Content
	if h.Ref.IsSnapshot() {
		id := c.GetSnapshot().GetSnapshotId()
		return id != "" && id == SnapshotHandle(h.Content)
	}
	id := c.GetVolume().GetVolumeId()
	return id != "" && h.Volume != nil && h.Volume.Spec.CSI != nil && id == h.Volume.Spec.CSI.VolumeHandle
}

// Waits reports whether a claim may still get a volume from its source. For a claim that is being
// deleted no call is begun, and a call that was begun is in the journal.
func Waits(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}
