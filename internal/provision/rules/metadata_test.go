package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// described is a claim with metadata of every kind.
func described(s *Snapshot) {
	s.Claim.Annotations["example.com/tier"], s.Claim.Annotations["secret"] = "gold", "not for the driver"
	s.Claim.Labels = map[string]string{"app.kubernetes.io/name": "log", "empty": ""}
	s.Namespace = Namespace{Access: Readable, Labels: map[string]string{"team": "crew"}}
}

func telling(keys ...MetadataKey) func(*Snapshot) {
	return func(s *Snapshot) { s.Options.DriverMetadata = keys }
}

func copying(keys ...MetadataKey) func(*Snapshot) {
	return func(s *Snapshot) { s.Options.VolumeMetadata = keys }
}

// U-50, U-51: the driver gets only the metadata that the administrator lists and the claim has.
func TestDriverMetadata(t *testing.T) {
	all := []MetadataKey{
		{ClaimAnnotation, "example.com/tier"}, {ClaimLabel, "app.kubernetes.io/name"}, {ClaimLabel, "empty"}, {ClaimLabel, "absent"}, {NamespaceLabel, "team"},
	}
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want map[string]string
	}{
		{"U-50 nothing is listed", world(described), map[string]string{"tier": "ssd"}},
		{"U-50 U-51 all that is listed and there", world(described, telling(all...)), map[string]string{
			"tier": "ssd", "purser/annotation/example.com/tier": "gold", "purser/label/app.kubernetes.io/name": "log", "purser/label/empty": "",
			"purser/namespace-label/team": "crew",
		}},
		{"U-50 listed, and not there", world(telling(all...)), map[string]string{"tier": "ssd"}},
	} {
		t.Run(tc.row, func(t *testing.T) {
			request, finding := NewRequest(tc.s)
			if finding != nil {
				t.Fatal(finding.Text())
			}
			if diff := cmp.Diff(tc.want, request.GetParameters()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if Inputs(world(described, telling(all...))) == Inputs(world(telling(all...))) {
		t.Error("U-50: a change of the metadata for the driver does not end a delay (H-43)")
	}
}

// U-50: the writer of a claim cannot fill the journal with it.
func TestDriverMetadataIsBounded(t *testing.T) {
	long := func(n int) Snapshot {
		return world(annotate("note", strings.Repeat("x", n)), telling(MetadataKey{ClaimAnnotation, "note"}))
	}
	room := maxMetadata - len("purser/annotation/note")
	if _, finding := NewRequest(long(room)); finding != nil {
		t.Errorf("%d bytes: %s", room, finding.Text())
	}
	refusal := settled(long(room+1), time.Time{}).Because()
	if refusal.Reason != verdict.ClaimInvalid || !strings.Contains(refusal.Text(), "annotation note") || strings.Contains(refusal.Text(), "xxx") {
		t.Errorf("%s: %s", refusal.Reason, refusal.Text())
	}
}

// A class cannot say in the administrator's name what the claim does not.
func TestClassCannotSetDriverMetadata(t *testing.T) {
	s := world(telling(MetadataKey{ClaimLabel, "team"}), func(s *Snapshot) { s.Class.Parameters["purser/label/team"] = "other" })
	if got := settled(s, time.Time{}).Because(); got.Reason != verdict.ClassInvalid {
		t.Errorf("%s: %s", got.Reason, got.Text())
	}
}

// U-52: what is copied to the volume, which keeps what is its own.
func TestVolumeMetadata(t *testing.T) {
	keys := []MetadataKey{{ClaimAnnotation, "example.com/tier"}, {ClaimLabel, "app.kubernetes.io/name"}, {ClaimLabel, "absent"}, {ClaimAnnotation, names.AnnProvisionedBy}}
	s := world(described, copying(keys...), annotate(names.AnnProvisionedBy, "other"))
	request, _ := NewRequest(s)
	pv := NewVolume(s, CreateVolume{Request: request}, &csi.Volume{VolumeId: "h"})
	if diff := cmp.Diff(map[string]string{"app.kubernetes.io/name": "log"}, pv.Labels); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{
		names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "", names.AnnDeletionSecretNamespace: "", "example.com/tier": "gold",
	}
	if diff := cmp.Diff(want, pv.Annotations); diff != "" {
		t.Error(diff)
	}
	if plain := NewVolume(world(described), CreateVolume{Request: request}, &csi.Volume{VolumeId: "h"}); plain.Labels != nil {
		t.Errorf("U-52: copied without being asked: %v", plain.Labels)
	}
}
