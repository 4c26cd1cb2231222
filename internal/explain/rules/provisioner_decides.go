package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/shell"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// capable are the assumed capabilities of a driver: the API does not have the true ones.
var capable = map[csi.ControllerServiceCapability_RPC_Type]bool{
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:     true,
	csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
	csi.ControllerServiceCapability_RPC_CLONE_VOLUME:             true,
	csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:   true,
	csi.ControllerServiceCapability_RPC_MODIFY_VOLUME:            true,
}

// defaults are the flags of a provisioner that matter here, which are not in the API either.
var defaults = provision.Options{
	NamePrefix: "pvc", NameUUIDLength: -1, KeepVolumeMode: true, Topology: topology.Rules{Immediate: true},
}

// assumed are the reasons that depend on [capable] or [defaults]: of another driver, or with other
// flags, the claim may be served.
var assumed = []verdict.Reason{
	verdict.NodeTopologyUnknown, verdict.TopologyUnknown, verdict.SourceNamespaceOff, verdict.SourceModeDiffers,
}

// hasTopology reports whether the driver may depend on nodes, as far as its registrations tell: one
// that is registered without topology keys does not.
func (c *Cluster) hasTopology(driver string) bool {
	if c.lacks(Node) || c.lacks(CSINode) {
		return false // nothing can be said of nodes
	}
	registered := false
	for _, node := range c.CSINodes {
		for _, d := range node.Spec.Drivers {
			if d.Name == driver && len(d.TopologyKeys) > 0 {
				return true
			}
			registered = registered || d.Name == driver
		}
	}
	return !registered
}

// provisionRefused explains a claim by the decision of the provisioner, if that ends without a
// call. unread has the kinds that the decision lacks.
func (c *Cluster) provisionRefused(
	claim *corev1.PersistentVolumeClaim, driver string, f Finding,
) (found []Finding, unread []Evidence) {
	found, unread = c.provisionRefusedBy(claim, driver, f, defaults)
	if len(found) == 1 && found[0].Reason == verdict.SourceNamespaceOff {
		// The gate may be on, as flags are not in the API: then it is a ReferenceGrant that counts
		//
		options := defaults
		options.CrossNamespace = true
		more, unknown := c.provisionRefusedBy(claim, driver, f, options)
		found, unread = append(found, more...), append(unread, unknown...)
	}
	return found, unread
}

func (c *Cluster) provisionRefusedBy(
	claim *corev1.PersistentVolumeClaim, driver string, f Finding, o provision.Options,
) (found []Finding, unread []Evidence) {
	s, missing, err := c.Gather.Provisioning(provision.Key{
		NamespacedName: keyOf(claim),
		UID:            claim.UID,
	}, provision.Driver{
		Name: driver, Controller: capable, HasTopology: c.hasTopology(driver),
		Plugin: map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true},
	}, o)
	if unread = c.undecided(f.Object, missing, err); unread != nil {
		return nil, unread
	}
	decided := provision.Decide(s, c.Now)
	why := decided.Because()
	switch decided.(type) {
	case verdict.Nothing[provision.Action]:
		return nil, nil
	case verdict.Do[provision.Action]:
		if why.Reason == verdict.Provisioning {
			return nil, nil
		}
	}
	f = c.provisionCause(claim, s, why, decidedBy(why, f))
	if slices.Contains(assumed, why.Reason) {
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: CSIDriver, Name: driver},
			"what the driver supports and how the provisioner is started",
			"not in the API; the defaults are assumed", "",
		})
	}
	if f.Fix[0].Command == "" {
		f.Fix[0].Command = shell.Command("kubectl describe %s %s", f.Cause.Kind.Short(), f.Cause.Name).In(
			f.Cause.Namespace,
		)
	}
	return []Finding{f}, nil
}

// provisionCause names the object that a decision of the provisioner is about, and who can change
// it.
func (c *Cluster) provisionCause(
	claim *corev1.PersistentVolumeClaim, s provision.Snapshot, why verdict.Finding, f Finding,
) Finding {
	switch why.Reason {
	case verdict.ClassInvalid:
		f.Cause, f.Actor = Ref{Kind: Class, Name: s.Class.Name}, Administrator
		f.Evidence = []Evidence{{claimRef(claim), "spec.storageClassName", s.Class.Name, ""}}
		for _, key := range slices.Sorted(maps.Keys(s.Class.Parameters)) {
			if strings.Contains(why.Message, key) {
				f.Evidence = append(f.Evidence, Evidence{
					f.Cause, "parameters[" + key + "]", quoted(s.Class.Parameters[key]), why.Fix,
				})
			}
		}
		f.Fix = append(f.Fix, Step{
			Text: "Parameters cannot be changed: delete the class and create it again under the same name",
			Risk: "none for volumes that exist: they do not read the class again, except for expansion",
		})
	case verdict.SecretMissing:
		secret := provision.ProvisionerSecret(s)
		f.Cause, f.Actor = Ref{Secret, secret.Namespace, secret.Name}, Administrator
		f.Evidence = []Evidence{{
			f.Cause, "metadata.name", "no such secret", "the secret of StorageClass " + s.Class.Name,
		}}
	case verdict.NodeTopologyUnknown:
		return c.nodeUnfit(claim, s, f)
	case verdict.TopologyUnknown:
		f.Cause, f.Actor = Ref{Kind: CSIDriver, Name: s.Driver.Name}, Administrator
		f.Evidence = []Evidence{{
			f.Cause, "the topologyKeys of its CSINodes", "no Node has labels with all of them",
			"Nodes with these labels",
		}}
	case verdict.VolumeConflict:
		if s.Volume != nil {
			f.Cause, f.Actor = volumeRef(s.Volume), Administrator
			f.Evidence = []Evidence{{
				f.Cause, "spec.claimRef", describeClaimRef(s.Volume), fmt.Sprintf("%s/%s", claim.Namespace, claim.Name),
			}}
		}
	case verdict.CreateAttributesMissing, verdict.CreateAttributesOtherDriver:
		f.Cause = Ref{Kind: AttributesClass, Name: deref(claim.Spec.VolumeAttributesClassName)}
		f.Evidence = []Evidence{{claimRef(claim), "spec.volumeAttributesClassName", f.Cause.Name, ""}}
	default:
		if ref := source.Of(claim); !ref.IsNone() && strings.HasPrefix(string(why.Reason), "Source") {
			return c.sourceUnready(claim, s.Source, f)
		}
	}
	return f
}

// decidedBy fills in the reason and the message of a decision.
func decidedBy(why verdict.Finding, f Finding) Finding {
	f = f.by(why, "")
	f.Reason, f.WaitsFor, f.Actor = why.Reason, "what the provisioner needs: "+why.Message, User
	text := why.Fix
	if text == "" {
		text = verdict.Advice(why.Reason)
	}
	f.Fix = []Step{{Text: text}}
	return f
}

// undecided says why a decision is not known; nil if it is.
func (c *Cluster) undecided(object Ref, missing []Kind, err error) (out []Evidence) {
	const field = "what the controllers decide"
	for _, kind := range missing {
		out = append(out, Evidence{object, field, "not known: " + unreadText(kind, c.Unread[kind]), ""})
	}
	if err != nil {
		out = append(out, Evidence{object, field, "not known: " + err.Error(), ""})
	}
	return out
}

// nodeUnfit is about the node that the scheduler picked (H-8, H-9).
func (c *Cluster) nodeUnfit(claim *corev1.PersistentVolumeClaim, s provision.Snapshot, f Finding) Finding {
	name := claim.Annotations[names.AnnSelectedNode]
	f.Actor = Administrator
	f.Evidence = []Evidence{{
		claimRef(claim), "metadata.annotations[" + names.AnnSelectedNode + "]", name, "a node with the driver",
	}}
	if s.Node == nil {
		f.Cause = Ref{Kind: Node, Name: name}
		f.Fix = []Step{{
			Text: "Remove the annotation, so that the scheduler selects a node again",
			Command: shell.Command(
				"kubectl -n %s annotate pvc %s %s-", claim.Namespace, claim.Name, names.AnnSelectedNode,
			),
			Risk: "none: no volume was created",
		}}
		return f
	}
	f.Cause = Ref{Kind: CSINode, Name: name}
	f.Evidence = append(f.Evidence, Evidence{f.Cause, "spec.drivers", c.driversOn(name), s.Driver.Name})
	f.Fix = c.registerFix(s.Driver.Name, name)
	return f
}

// sourceUnready explains a claim by the state of its data source. A snapshot that is not ready has
// a cause of its own.
func (c *Cluster) sourceUnready(claim *corev1.PersistentVolumeClaim, s source.State, f Finding) Finding {
	ref := source.Of(claim)
	f.Evidence = []Evidence{{claimRef(claim), "spec.dataSourceRef", ref.String(), ""}}
	switch {
	case ref.IsSnapshot():
		f.Cause = Ref{Snapshot, ref.Namespace, ref.Name}
	case ref.IsClaim():
		f.Cause = Ref{Claim, ref.Namespace, ref.Name}
	default: // a populator's
		f.Actor = Administrator
		return f
	}
	if f.Reason == verdict.SourceNotGranted {
		f.Actor = Administrator
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: Namespace, Name: ref.Namespace},
			"number of ReferenceGrants",
			fmt.Sprintf("%d, none of which allows it", len(s.Grants)), "one that allows it",
		})
	}
	if f.Reason == verdict.SourceNotReady && s.Snapshot != nil {
		pending := c.snapshotPending(s.Snapshot)
		f.WaitsFor += "; it waits for " + pending.WaitsFor
		f.Evidence, f.Fix = append(f.Evidence, pending.Evidence...), append(f.Fix, pending.Fix...)
	}
	return f
}
