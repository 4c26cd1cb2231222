package explain

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// explainClass says whether claims of a class can get volumes.
func (c *Cluster) explainClass(class *storagev1.StorageClass) Report {
	ref := Ref{Kind: Class, Name: class.Name}
	report := Report{
		Object:  ref,
		Summary: fmt.Sprintf("volumes come from %s, bound %s", class.Provisioner, bindingMode(class)),
	}
	base := Finding{Object: ref, Cause: ref, Actor: Administrator}
	driver := binding.Driver(class.Provisioner)
	if driver == "" {
		f := base
		f.Reason, f.WaitsFor = verdict.ProvisionerUnknown, fmt.Sprintf(
			"volumes made by hand: nothing provisions for %q", class.Provisioner,
		)
		f.Evidence = []Evidence{{ref, "provisioner", class.Provisioner, "the name of a CSI driver"}}
		if class.Provisioner == "kubernetes.io/no-provisioner" {
			report.Next = "claims get volumes of this class that are made by hand"
			return c.finish(report, Volume)
		}
		f.Fix = []Step{{
			Text:    "Create a class with the name of an installed CSI driver as its provisioner",
			Command: "kubectl get csidriver",
		}}
		report.Findings = append(report.Findings, f)
		return c.finish(report, CSIDriver)
	}
	if state, _ := c.healthOf(provisioner(driver)); state == expired || state == noLease &&
		c.driverOf(driver) == nil && !c.lacks(CSIDriver) {
		f := base
		f.Reason, f.Cause = verdict.ProvisionerSilent, Ref{Kind: CSIDriver, Name: driver}
		f.WaitsFor = provisioner(driver).name + ", which shows no sign of life"
		f.Evidence = append([]Evidence{{
			ref, "provisioner", class.Provisioner,
			"a driver that runs; installed are: " + c.installed(),
		}}, c.leaseEvidence(provisioner(driver))...)
		f.Fix = []Step{{
			Text:    "Install the driver, or correct the name (delete the class and create it again)",
			Command: "kubectl get csidriver",
		}}
		report.Findings = append(report.Findings, c.byRunner(provisioner(driver), f))
	}
	report.Findings = append(report.Findings, c.classSecrets(class, base)...)
	report.Findings = append(report.Findings, c.twoDefaults(class, base)...)
	report.Findings = append(report.Findings, c.classCapacity(class, base)...)
	report.Next = "claims that name it get volumes"
	return c.finish(report, Lease, CSIDriver)
}

func bindingMode(class *storagev1.StorageClass) string {
	if binding.DelaysBinding(class) {
		return "when a pod needs them"
	}
	return "at once"
}

// classSecrets checks the secret parameters as far as they do not depend on a claim.
func (c *Cluster) classSecrets(class *storagev1.StorageClass, f Finding) []Finding {
	set, problem := secretref.NewSet(class.Parameters, secretref.Scope{VolumeName: "pvc-example"})
	if problem != nil && !strings.Contains(class.Parameters[problem.Parameter], "${") {
		f.Reason, f.WaitsFor = verdict.ClassInvalid, fmt.Sprintf(
			"a correct parameter %s: it %s", problem.Parameter, problem.Text,
		)
		f.Evidence = []Evidence{{
			f.Object, "parameters[" + problem.Parameter + "]",
			quoted(class.Parameters[problem.Parameter]), problem.Fix,
		}}
		f.Fix = []Step{{Text: problem.Fix}}
		return []Finding{f}
	}
	secret := set.Of(secretref.Provisioner)
	if problem != nil || secret.Name == "" || c.lacks(Secret) || c.index.secrets[secret] {
		return nil
	}
	f.Reason, f.Cause = verdict.SecretMissing, Ref{Secret, secret.Namespace, secret.Name}
	f.WaitsFor = fmt.Sprintf("secret %s, which its parameters name and which does not exist", secret)
	f.Evidence = []Evidence{{f.Cause, "metadata.name", "no such secret", secret.String()}}
	f.Fix = []Step{{
		Text:    "Create the secret as the driver documents it",
		Command: shell.Command("kubectl -n %s get secret %s", secret.Namespace, secret.Name),
	}}
	return []Finding{f}
}

// classCapacity is about the capacity that the driver does not say, which the scheduler needs for claims of
// the class.
func (c *Cluster) classCapacity(class *storagev1.StorageClass, f Finding) []Finding {
	f, is := c.told(c.lastEvent(f.Object, string(verdict.CapacityUnknown), string(verdict.CapacityInvalid)), f)
	if !is {
		return nil
	}
	published := 0
	for _, capacity := range c.Capacities {
		if capacity.StorageClassName != class.Name {
			continue
		}
		if published++; capacity.Capacity == nil {
			f.Evidence = append(f.Evidence, Evidence{
				Ref{Capacity, capacity.Namespace, capacity.Name}, "capacity", "absent", "what the driver says",
			})
		}
	}
	if published > 0 && len(f.Evidence) == 1 && f.Reason == verdict.CapacityUnknown {
		return nil // the driver has said it since
	}
	return []Finding{f}
}

// twoDefaults warns of more than one default class: the newest wins, which surprises a reader who
// looks at the other.
func (c *Cluster) twoDefaults(class *storagev1.StorageClass, f Finding) []Finding {
	if class.Annotations[names.AnnDefaultStorageClass] != "true" {
		return nil
	}
	winner := binding.DefaultClass(c.Classes)
	if winner == nil || winner.Name == class.Name {
		return nil
	}
	f.Reason, f.Cause = verdict.DefaultClassShadowed, Ref{Kind: Class, Name: winner.Name}
	f.WaitsFor = fmt.Sprintf(
		"to be the only default: class %q is marked as well, is newer, and is what claims get that name no class",
		winner.Name,
	)
	f.Evidence = []Evidence{
		{f.Object, "metadata.creationTimestamp", class.CreationTimestamp.UTC().String(), ""},
		{f.Cause, "metadata.creationTimestamp", winner.CreationTimestamp.UTC().String(), ""},
	}
	f.Fix = []Step{{
		Text:    "Remove the default annotation from one of the two",
		Command: shell.Command("kubectl annotate storageclass %s %s-", class.Name, names.AnnDefaultStorageClass),
	}}
	return []Finding{f}
}
