package explain

import "github.com/purser-csi/purser/internal/names"

// NoteGroups notes the version of an object of group snapshots that was read, from which its fields were
// converted to those of v1.
func (c *Cluster) NoteGroups(version string) {
	if version != "v1" {
		c.OlderGroups = version
	}
}

// withOlderGroups adds to a finding about a snapshot that is not taken that group snapshots are served in an
// older version only. The newer programs wait for theirs, and until then take no snapshot at all
// (kubernetes-csi/external-snapshotter#1385).
func (c *Cluster) withOlderGroups(f Finding) Finding {
	if c.OlderGroups == "" {
		return f
	}
	var of Ref
	switch {
	case len(c.GroupClasses) > 0:
		of = Ref{Kind: GroupClass, Name: c.GroupClasses[0].Name}
	case len(c.GroupSnapshots) > 0:
		of = groupRef(c.GroupSnapshots[0])
	case len(c.GroupContents) > 0:
		of = groupContentRef(c.GroupContents[0])
	default:
		return f
	}
	wanted := "v1, which Purser reads"
	if c.OlderGroups == "v1beta1" {
		wanted += "; external-snapshotter 8.4 and newer do not read v1beta1 either"
	}
	f.Evidence = append(f.Evidence, Evidence{
		of, "apiVersion", names.GroupSnapshotGroup + "/" + c.OlderGroups, wanted,
	})
	f.Fix = append(f.Fix, Step{
		Text: "If the snapshot-controller and the csi-snapshotter are newer than the custom resources of group " +
			"snapshots: install the newer ones. The programs wait for them, and until then take no snapshot",
		Command: "kubectl get crd volumegroupsnapshots." + names.GroupSnapshotGroup,
	})
	return f
}
