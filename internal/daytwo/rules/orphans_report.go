package daytwo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/size"
)

// HasUnknown reports whether a driver lists something that no object names.
func HasUnknown(in OrphanInput) bool { return len(unknown(in)) > 0 }

// unknown returns the volumes and snapshots of drivers that no object names.
func unknown(in OrphanInput) map[handleKey]bool {
	x, all := newOrphanIndex(in), map[handleKey]bool{}
	for _, o := range slices.Concat(x.driverVolumes(), x.driverSnapshots()) {
		all[handleKey{o.Driver, o.Handle}] = true
	}
	return all
}

// KeepSeen returns the second comparison without what a driver lists that no object names for the
// first time.
func KeepSeen(second, first OrphanInput) OrphanInput {
	before, now := unknown(first), unknown(second)
	for i := range second.Drivers {
		d := &second.Drivers[i]
		isNew := func(v DriverVolume) bool {
			key := handleKey{d.Driver, v.Handle}
			return now[key] && !before[key]
		}
		d.Volumes, d.Snapshots = slices.DeleteFunc(d.Volumes, isNew), slices.DeleteFunc(d.Snapshots, isNew)
	}
	return second
}

// VolumeFor returns a PersistentVolume that names a volume of a driver, by which a claim can use
// it. It has the policy Retain, so that no object that is deleted deletes the data.
func VolumeFor(driver string, v DriverVolume) *corev1.PersistentVolume {
	const digits = 16
	sum := sha256.Sum256([]byte(driver + "^" + v.Handle))
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: "orphan-" + hex.EncodeToString(sum[:])[:digits]},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size.Quantity(v.Bytes)},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.Handle},
			},
		},
	}
}

// ExitCode is 1 if there are orphans, 2 if something could not be compared, and else 0.
func (r OrphanReport) ExitCode() int {
	switch {
	case len(r.Orphans) > 0:
		return ExitFound
	case len(r.Unread) > 0:
		return ExitUnknown
	}
	return 0
}

// Print prints each orphan with its proof.
func (r OrphanReport) Print(p *Page) {
	for _, o := range r.Orphans {
		p.Line(Warning, "%s %s", o.Kind, o.Name)
		p.Line(Plain, "  %s%s", o.Why, details(o))
		for _, proof := range o.Proof {
			p.Line(Plain, "  proof: %s", proof)
		}
		if o.Doubt != "" {
			p.Line(Plain, "  but:   %s", o.Doubt)
		}
		if o.Command != "" {
			p.Line(Plain, "  to do: %s", o.Command)
			p.Line(Plain, "         (%s)", o.Risk)
		}
		p.Line(Plain, "")
	}
	var compared []string
	for _, kind := range slices.Sorted(maps.Keys(r.Compared)) {
		compared = append(compared, fmt.Sprintf("%d %s", r.Compared[kind], kind))
	}
	if len(r.Orphans) == 0 {
		p.Line(Good, "Nothing was found that nothing refers to.")
	} else {
		p.Line(Plain, "%s. Nothing was deleted.", plural(len(r.Orphans), "orphan"))
	}
	p.Line(Plain, "Compared: %s.", strings.Join(compared, ", "))
	for _, text := range r.Unread {
		p.Line(Warning, "Not compared: %s", text)
	}
	for _, text := range r.Unasked {
		p.Line(Unknown, "Not asked for: %s", text)
	}
}

func details(o Orphan) string {
	var parts []string
	if o.Driver != "" && o.Handle != "" && o.Handle != o.Name {
		parts = append(parts, fmt.Sprintf("handle %s of %s", o.Handle, o.Driver))
	} else if o.Driver != "" {
		parts = append(parts, "driver "+o.Driver)
	}
	if o.Bytes > 0 {
		parts = append(parts, Bytes(o.Bytes))
	}
	if o.Since != nil {
		parts = append(parts, "since "+o.Since.Format("2006-01-02 15:04Z"))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
