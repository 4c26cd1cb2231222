package explain

import (
	"fmt"
	"strings"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// explainSnapshotClass says whether snapshots of a class can be taken.
func (c *Cluster) explainSnapshotClass(class *snapshotv1.VolumeSnapshotClass) Report {
	ref := Ref{Kind: SnapshotClass, Name: class.Name}
	report := Report{
		Object:  ref,
		Summary: fmt.Sprintf("snapshots are taken by %s, deletion policy %s", class.Driver, class.DeletionPolicy),
		Next:    "snapshots that name it can be taken",
	}
	report.Findings = append(c.driverSilent(ref, snapshotter(class.Driver), verdict.SnapshotterSilent),
		c.parameterSecrets(ref, class.Parameters)...)
	return c.finish(report, Lease, CSIDriver)
}

// explainGroupClass is the same for a class of group snapshots.
func (c *Cluster) explainGroupClass(class *groupv1.VolumeGroupSnapshotClass) Report {
	ref := Ref{Kind: GroupClass, Name: class.Name}
	report := Report{
		Object:  ref,
		Summary: fmt.Sprintf("group snapshots are taken by %s, deletion policy %s", class.Driver, class.DeletionPolicy),
		Next:    "group snapshots that name it can be taken",
	}
	report.Findings = append(c.driverSilent(ref, snapshotter(class.Driver), verdict.SnapshotterSilent),
		c.parameterSecrets(ref, class.Parameters)...)
	return c.finish(report, Lease, CSIDriver)
}

// explainAttributesClass says whether claims can get the attributes of a class.
func (c *Cluster) explainAttributesClass(class *storagev1.VolumeAttributesClass) Report {
	ref := Ref{Kind: AttributesClass, Name: class.Name}
	report := Report{
		Object:  ref,
		Summary: fmt.Sprintf("%s sets its %s", class.DriverName, counted(len(class.Parameters), "parameter")),
		Next:    "claims of its driver can name it",
	}
	report.Findings = c.driverSilent(ref, resizer(class.DriverName), verdict.ResizerSilent)
	return c.finish(report, Lease, CSIDriver)
}

// parameterSecrets are about the secrets that parameters of a class name and that do not exist.
func (c *Cluster) parameterSecrets(ref Ref, parameters map[string]string) (findings []Finding) {
	if c.lacks(Secret) {
		return nil
	}
	for _, named := range secretsInParameters(ref, parameters) {
		if c.index.secrets[named.ref] || strings.Contains(named.ref.String(), "${") {
			continue
		}
		secret := Ref{Secret, named.ref.Namespace, named.ref.Name}
		f := findingAbout(ref, nil).about(secret).waits(verdict.SecretMissing, Administrator,
			"secret %s, which its parameters name and which does not exist", named.ref)
		f.Evidence = []Evidence{{ref, named.field, named.ref.String(), "a secret that exists"}}
		f.Fix = []Step{{
			Text:    "Create the secret as the driver documents it",
			Command: shell.Command("kubectl -n %s get secret %s", secret.Namespace, secret.Name),
		}}
		findings = append(findings, f)
	}
	return eachOnce(findings)
}
