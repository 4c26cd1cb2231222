package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

const (
	ebs   = "ebs.csi.aws.com"
	inEBS = "kubernetes.io/aws-ebs"
)

// migrated is a claim whose class names an in-tree plugin, for the driver that took its place (M-3).
func migrated(s *Snapshot) {
	s.Driver.Name = ebs
	s.Class.Provisioner, s.Class.Parameters = inEBS, map[string]string{"type": "gp3", "fsType": "xfs"}
	s.Claim.Annotations = map[string]string{names.AnnStorageProvisioner: inEBS, names.AnnMigratedTo: ebs}
}

// M-3, M-4, M-5, C-73: from the class of the plugin to a PersistentVolume of the plugin.
func TestMigratedClaim(t *testing.T) {
	s := Migrated(world(migrated))
	if s.InTree != inEBS || s.Class.Provisioner != ebs {
		t.Fatalf("M-4: %q, %+v", s.InTree, s.Class)
	}
	v, ok := settled(s, time.Time{}).(do)
	if !ok {
		t.Fatalf("%+v", settled(s, time.Time{}))
	}
	sent := v.Actions[1].(CreateVolume)
	if got := sent.Request.GetVolumeCapabilities()[0].GetMount().GetFsType(); got != "xfs" || sent.Request.GetParameters()["type"] != "gp3" {
		t.Errorf("M-4: filesystem %q, parameters %v", got, sent.Request.GetParameters())
	}
	v, ok = AfterCreate(s, sent, Answer{Volume: &csi.Volume{VolumeId: "vol-01234567"}}).(do)
	if !ok {
		t.Fatal("the volume is refused")
	}
	pv := v.Actions[0].(WriteVolume).Volume
	if pv.Spec.AWSElasticBlockStore == nil || pv.Spec.AWSElasticBlockStore.VolumeID != "vol-01234567" || pv.Annotations[names.AnnProvisionedBy] != inEBS {
		t.Errorf("M-5: %+v, %v", pv.Spec.PersistentVolumeSource, pv.Annotations)
	}
	// The next look finds the object that was written, and does not take it for a foreign one.
	back, err := objects.ToCSI(pv)
	if err != nil {
		t.Fatal(err)
	}
	s.Volume = back
	if !describes(s) || hasAnother(s) {
		t.Errorf("the volume is not known again: %+v", back.Spec.CSI)
	}
	if got := AfterWrite(pv, Written{Existing: pv}).Because().Reason; got != verdict.VolumeProvisioned {
		t.Errorf("H-5: the object that exists already: %s", got)
	}
	if got := IsNeeded(s, DiscardVolume{Name: pv.Name, Handle: "vol-01234567"}, pv, nil); got == nil {
		t.Error("a volume with its in-tree PersistentVolume is discarded")
	}
}

// M-4: a class of the driver is not translated, also for a claim that was migrated.
func TestClassOfTheDriverIsNotTranslated(t *testing.T) {
	s := Migrated(world(migrated, func(s *Snapshot) { s.Class.Provisioner = ebs }))
	if s.InTree != "" || s.Class.Parameters["fsType"] != "xfs" {
		t.Errorf("%q, %v", s.InTree, s.Class.Parameters)
	}
	if s := Migrated(world()); s.InTree != "" || s.Class.Provisioner != driver {
		t.Error("a driver without a plugin has a translated class")
	}
}

// H-13: a volume that cannot be written as one of the plugin is deleted again by its handle, and the
// next attempt waits for the longest delay.
func TestFailedTranslationDoesNotLoop(t *testing.T) {
	s := Migrated(world(migrated))
	s.Driver.Name, s.InTree = "file.csi.azure.com", "kubernetes.io/azure-file"
	s.Class.Provisioner = s.Driver.Name
	entry, finding := entryOf(s)
	if finding != nil {
		t.Fatal(finding)
	}
	sent := CreateVolume{Request: entry.Request, Secrets: entry.Secrets}
	v, ok := AfterCreate(s, sent, Answer{Volume: &csi.Volume{VolumeId: "bad", VolumeContext: map[string]string{"shareName": ""}}}).(do)
	if !ok {
		t.Fatal("the volume stays")
	}
	discard, discards := v.Actions[0].(DiscardVolume)
	if !discards {
		t.Fatalf("%+v", v.Actions)
	}
	then, refuses := v.Then.(refuse)
	if discard.Handle != "bad" || !refuses || then.Retry != verdict.RetrySlowly || !strings.Contains(then.Text(), "in-tree") {
		t.Errorf("%+v", v)
	}
}

// C-52: a class that cannot be translated is refused.
func TestUntranslatedClass(t *testing.T) {
	s := world(migrated)
	s.Untranslated = "no such zone"
	if got := settled(s, time.Time{}).Because(); got.Reason != verdict.ClassInvalid || !strings.Contains(got.Text(), ebs) {
		t.Errorf("%s: %s", got.Reason, got.Text())
	}
}
