package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// settled decides as the loop does, where each read finds what the snapshot has already.
func settled(s Snapshot, now time.Time) Verdict {
	_, v, _ := settle(s, now)
	return v
}

// settle is settled with the snapshot, which has the references that were asked for.
func settle(s Snapshot, now time.Time) (Snapshot, Verdict, error) {
	return verdict.Settle(s, func(s Snapshot) Verdict { return Decide(s, now) },
		func(s Snapshot, refs []verdict.Ref) (Snapshot, error) { return s.With(refs...), nil })
}

func askedSecret(t *testing.T, s Snapshot) types.NamespacedName {
	t.Helper()
	s, _, _ = settle(s, time.Unix(100, 0))
	for _, ref := range s.Read {
		if ref.What == ReadSecret {
			if ref.Name == "" || ref.Namespace == "" {
				t.Errorf("half a reference: %q", ref)
			}
			return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		}
	}
	return types.NamespacedName{}
}

// What is read for a claim beyond the cache: nothing for most.
func TestReads(t *testing.T) {
	entry := func(s *Snapshot) {
		s.Pending = &intent.Entry{VolumeName: pvName, Request: &csi.CreateVolumeRequest{Name: pvName}}
	}
	made := func(s *Snapshot) { s.Provisioned = true }
	tells := telling(MetadataKey{ClaimLabel, "team"}, MetadataKey{NamespaceLabel, "team"})
	const (
		volume, claim, secret = "PersistentVolume/" + pvName, "PersistentVolumeClaim", "Secret/vault/s-logbook"
		attributes, namespace = "VolumeAttributesClass/gold", "Namespace/crew"
	)
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"C-114 a new claim":                                {world(), ""},
		"no entry, the claim is gone":                      {world(noClaim), ""},
		"no entry, the claim is bound":                     {world(bound, cloning, gold), ""},
		"H-1 an entry, the claim is unbound":               {world(entry), volume},
		"H-1 an entry, the cache lacks the claim":          {world(entry, noClaim), volume + " " + claim},
		"H-1 an entry, the claim is bound":                 {world(entry, bound), volume + " " + claim},
		"H-5 the cache lacks what we provisioned":          {world(made), volume + " " + claim},
		"H-5 the cache has what we provisioned":            {world(made, volumeOf(uid)), ""},
		"an entry, the cache has the volume":               {world(entry, volumeOf(uid)), volume},
		"an entry, and we provisioned it before":           {world(entry, made), volume + " " + claim},
		"a source and attributes":                          {world(cloning, gold), "source/crew/old " + attributes},
		"the attributes also before a request is repeated": {world(cloning, gold, entry), volume + " " + attributes},
		"C-54":                                              {world(cloning, lacksAll), ""},
		"R-40 the provisioner's secret":                     {world(provisionerSecret, access(Readable)), secret},
		"R-58 none of the others":                           {world(class(names.ParameterNodeStageSecretName, "s", names.ParameterNodeStageSecretNamespace, "n")), ""},
		"C-15 not while a pod is waited for":                {world(provisionerSecret, tells, firstUse), ""},
		"C-20 not when the volume exists":                   {world(provisionerSecret, volumeOf(uid)), ""},
		"C-63 not when the class is refused anyway":         {world(provisionerSecret, class("csi.storage.k8s.io/colour", "red")), ""},
		"H-47 not when the request is in the journal":       {world(provisionerSecret, tells, entry), volume},
		"C-4 not for a claim that is gone":                  {world(provisionerSecret, tells, noClaim), ""},
		"U-51 labels of the namespace":                      {world(tells), namespace},
		"U-51 labels of the claim alone":                    {world(telling(MetadataKey{ClaimLabel, "team"})), ""},
		"U-51 the class is missing":                         {world(tells, func(s *Snapshot) { s.Class = nil }), ""},
		"U-51 the secret not if the namespace is forbidden": {world(tells, provisionerSecret, func(s *Snapshot) { s.Namespace.Access = Forbidden }), namespace},
		"T-10 the selected node is cached":                  {world(hasTopology, onNode(map[string]string{"zone": "b"}, driver), strict), ""},
		"T-30 the other nodes":                              {world(hasTopology, defaults, inZones("a")), "Nodes of the driver"},
		"C-104 the cache lacks the selected node":           {world(hasTopology, strict, annotate(names.AnnSelectedNode, "n1")), "Node/n1"},
		"C-104 the selected node, without topology":         {world(annotate(names.AnnSelectedNode, "n1")), ""},
	} {
		t.Run(row, func(t *testing.T) {
			s, v, err := settle(tc.s, time.Unix(100, 0))
			if _, asks := v.(verdict.Read[Action]); asks || err != nil || v.Because().Reason == verdict.DecisionsEndless {
				t.Errorf("%+v, %v", v, err)
			}
			var got []string
			for _, ref := range s.Read {
				got = append(got, ref.String())
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("read %q, want %q", got, tc.want)
			}
		})
	}
}

func lacksAll(s *Snapshot) { s.Driver.Controller = nil }

// A state of the source that was read for another claim refuses this one, and never lets it go on.
func TestSharedSourceOnlyRefuses(t *testing.T) {
	shared := func(s *Snapshot) { s.SourceShared = true }
	for name, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"usable":     {world(cloning, shared), "source/crew/old source, for this claim alone/crew/old"},
		"not usable": {world(cloning, shared, func(s *Snapshot) { s.Source.Claim.Status.Phase = corev1.ClaimPending }), "source/crew/old"},
		"own":        {world(cloning), "source/crew/old"},
	} {
		var got []string
		s, _, _ := settle(tc.s, time.Unix(100, 0))
		for _, ref := range s.Read {
			got = append(got, ref.String())
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("%s: read %q, want %q", name, got, tc.want)
		}
	}
}

// A cached state of a snapshot lets a claim go on, and refuses none: that takes a live one, which claims may
// share.
func TestCachedSourceRefusesNothing(t *testing.T) {
	unready := func(s *Snapshot) { s.Source.Snapshot.Status.ReadyToUse = new(false) }
	for name, tc := range map[string]struct {
		s      Snapshot
		live   func(*Snapshot)
		want   string
		reason verdict.Reason
	}{
		"usable": {world(restoring, cached), nil, "source/crew/s", verdict.Provisioning},
		"not usable": {
			world(restoring, cached, unready), func(*Snapshot) {}, "source/crew/s live source/crew/s",
			verdict.SourceNotReady,
		},
		"stale": {
			world(restoring, cached, unready), func(s *Snapshot) { restoring(s) }, "source/crew/s live source/crew/s",
			verdict.Provisioning,
		},
		"stale, and read for another claim": {
			world(restoring, cached, unready), func(s *Snapshot) { restoring(s); s.SourceShared = true },
			"source/crew/s live source/crew/s source, for this claim alone/crew/s", verdict.Provisioning,
		},
	} {
		read := func(s Snapshot, refs []verdict.Ref) (Snapshot, error) {
			for _, ref := range refs {
				switch ref.What {
				case ReadLiveSource:
					s.Source.Cached = false
					tc.live(&s)
				case ReadOwnSource:
					s.SourceShared = false
				}
			}
			return s.With(refs...), nil
		}
		s, v, err := verdict.Settle(tc.s, func(s Snapshot) Verdict { return Decide(s, time.Unix(100, 0)) }, read)
		var got []string
		for _, ref := range s.Read {
			got = append(got, ref.String())
		}
		if got := strings.Join(got, " "); err != nil || got != tc.want || v.Because().Reason != tc.reason {
			t.Errorf("%s: read %q, want %q; %s, want %s; %v", name, got, tc.want, v.Because().Reason, tc.reason, err)
		}
	}
}

func cached(s *Snapshot) { s.Source.Cached = true }

// restoring has the claim restore a snapshot that is ready.
func restoring(s *Snapshot) {
	s.Claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(names.SnapshotGroup), Kind: source.KindSnapshot, Name: "s",
	}
	s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] = true
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "s", UID: "uid of s"},
		Status: &snapshotv1.VolumeSnapshotStatus{
			ReadyToUse: new(true), BoundVolumeSnapshotContentName: new("content"),
		},
	}
	content := &snapshotv1.VolumeSnapshotContent{
		Spec:   snapshotv1.VolumeSnapshotContentSpec{Driver: driver},
		Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("h")},
	}
	content.Name = "content"
	content.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "crew", Name: "s", UID: "uid of s"}
	s.Source = source.State{Ref: source.Of(s.Claim), Snapshot: vs, Content: content}
}

// The most that one decision reads fits in the rounds of the loop.
func TestEverythingIsRead(t *testing.T) {
	s := world(
		cloning, gold, provisionerSecret, access(Readable), hasTopology, defaults, telling(MetadataKey{NamespaceLabel, "team"}),
		annotate(names.AnnSelectedNode, "n1"), refused(1), func(s *Snapshot) { s.Provisioned, s.SourceShared = true, true },
	)
	read := func(s Snapshot, refs []verdict.Ref) (Snapshot, error) {
		for _, ref := range refs {
			switch ref.What {
			case ReadNode:
				s.Node, s.CSINode = &corev1.Node{}, &storagev1.CSINode{Spec: storagev1.CSINodeSpec{
					Drivers: []storagev1.CSINodeDriver{{Name: driver}},
				}}
			case ReadOwnSource:
				s.SourceShared = false
			}
		}
		return s.With(refs...), nil
	}
	s, v, err := verdict.Settle(s, func(s Snapshot) Verdict { return Decide(s, time.Unix(100, 0)) }, read)
	if err != nil || v.Because().Reason != verdict.Provisioning {
		t.Errorf("%+v, %v", v, err)
	}
	for _, what := range []string{
		ReadVolume, ReadClaim, ReadNode, ReadNodes, ReadSource, ReadOwnSource, ReadAttributes, ReadNamespace, ReadSecret,
	} {
		found := false
		for _, ref := range s.Read {
			found = found || ref.What == what
		}
		if !found {
			t.Errorf("%s is not read", what)
		}
	}
	if s.Source.Ref.Kind != source.KindClaim {
		t.Errorf("the source is lost: %+v", s.Source.Ref)
	}
}

// entryOf returns the journal entry of a new request, or why there is none.
func entryOf(s Snapshot) (intent.Entry, *verdict.Finding) {
	made := newDraft(s)
	return made.entry, made.finding
}
