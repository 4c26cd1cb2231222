package explain

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func leaseOf(name, holder string, renewed time.Duration) *coordinationv1.Lease {
	at, seconds := metav1.NewMicroTime(noon.Add(-renewed)), int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &seconds},
	}
}

func TestLeaseNames(t *testing.T) {
	for of, want := range map[component]string{
		provisioner("disk.example.com"): "disk-example-com",                          // LK-1
		provisioner("org/disk_"):        "org-disk-x",                                // LK-1: the end
		attacher("disk.example.com"):    "external-attacher-leader-disk-example-com", // AT-M5
	} {
		if of.lease != want {
			t.Errorf("the lease of %s is %q, want %q", of.name, of.lease, want)
		}
	}
}

// The lease tells whether a component lives (LK-1): kubernetes-csi/external-provisioner#272.
func TestHealth(t *testing.T) {
	lease := controllerManager.lease
	for name, tc := range map[string]struct {
		leases []*coordinationv1.Lease
		want   health
	}{
		"none":                        {nil, noLease},
		"of another component":        {[]*coordinationv1.Lease{leaseOf("kube-scheduler", "h", 0)}, noLease},
		"renewed":                     {[]*coordinationv1.Lease{leaseOf(lease, "h", 5*time.Second)}, renewed},
		"late, but clocks may differ": {[]*coordinationv1.Lease{leaseOf(lease, "h", 70*time.Second)}, renewed},
		"not renewed any more":        {[]*coordinationv1.Lease{leaseOf(lease, "h", 76*time.Second)}, expired},
		"given back":                  {[]*coordinationv1.Lease{leaseOf(lease, "", 0)}, expired},
		"the newest counts": {
			[]*coordinationv1.Lease{leaseOf("purser-controllers", "h", time.Second), leaseOf(lease, "h", time.Hour)}, renewed,
		},
	} {
		c := (&Cluster{Now: noon, Leases: tc.leases}).Prepare()
		if got, _ := c.healthOf(controllerManager); got != tc.want {
			t.Errorf("%s: health %d, want %d", name, got, tc.want)
		}
	}
	c := (&Cluster{Now: noon, Unread: map[Kind]string{Lease: "forbidden"}}).Prepare()
	if got, _ := c.healthOf(controllerManager); got != unknownHealth {
		t.Errorf("leases that were not read: health %d", got)
	}
}

// A component without a lease that has written an object lately is not called silent: it may elect no leader,
// and so do the roles of `up`, which have one lease together.
func TestHealthWithoutLease(t *testing.T) {
	written := func(manager, driver string, ago time.Duration) *corev1.PersistentVolume {
		at := metav1.NewTime(noon.Add(-ago))
		pv := &corev1.PersistentVolume{}
		pv.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Time: &at}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		return pv
	}
	for name, tc := range map[string]struct {
		pv   *corev1.PersistentVolume
		of   component
		want health
	}{
		"upstream's":           {written("csi-provisioner", "d", time.Hour), provisioner("d"), unknownHealth},
		"ours":                 {written("purser-csi-provisioner", "d", time.Hour), provisioner("d"), unknownHealth},
		"of another driver":    {written("csi-provisioner", "e", time.Hour), provisioner("d"), noLease},
		"of another component": {written("csi-attacher", "d", time.Hour), provisioner("d"), noLease},
		"long ago":             {written("csi-provisioner", "d", 25*time.Hour), provisioner("d"), noLease},
		"the controllers":      {written("purser-controllers", "d", time.Hour), controllerManager, unknownHealth},
	} {
		c := (&Cluster{Now: noon, Volumes: []*corev1.PersistentVolume{tc.pv}}).Prepare()
		if got, _ := c.healthOf(tc.of); got != tc.want {
			t.Errorf("%s: health %d, want %d", name, got, tc.want)
		}
	}
	for since, want := range map[time.Duration]health{time.Minute: renewed, time.Hour: expired} {
		c := (&Cluster{Now: noon, Leases: []*coordinationv1.Lease{leaseOf(names.LeaseUp, "node", since)}}).Prepare()
		for _, of := range []component{provisioner("d"), attacher("d"), resizer("d"), controllerManager} {
			if got, _ := c.healthOf(of); got != want {
				t.Errorf("%s, renewed %s ago: health %d, want %d", of.name, since, got, want)
			}
		}
	}
}

// The gRPC code of a driver's error tells who can fix it, as the CSI specification defines it
// (csi.proto, "Error Scheme").
func TestAdvice(t *testing.T) {
	for code, want := range map[string]Actor{
		"InvalidArgument": Administrator, "ResourceExhausted": Administrator, "OutOfRange": User, "Unimplemented": Vendor,
		"Internal": Vendor, "Unavailable": Administrator, "PermissionDenied": Administrator, "": Administrator,
	} {
		if actor, text := rpcAdvice(code); actor != want || text == "" {
			t.Errorf("%q: %s, %q; want %s", code, actor, text, want)
		}
	}
	for message, want := range map[string][2]string{
		"rpc error: code = OutOfRange desc = too large":              {"OutOfRange", "too large"},
		"failed: rpc error: code = Internal desc = two\nlines":       {"Internal", "two\nlines"},
		"error generating accessibility requirements: no topologies": {"", "error generating accessibility requirements: no topologies"},
	} {
		if code, words := rpcCode(message); code != want[0] || words != want[1] {
			t.Errorf("%q: code %q, words %q", message, code, words)
		}
	}
}

// The kubelet's messages without a gRPC code (kubernetes/kubernetes#65392, #72226, #120268).
func TestMountAdvice(t *testing.T) {
	for message, want := range map[string]string{
		"unmounted volumes=[data]: timed out waiting for the condition":                                  "wait timed out",
		"driver name disk.example.com not found in the list of registered CSI drivers":                   "driver's node pod is not running",
		`references non-existent secret: secret "s" not found`:                                           "Create the secret",
		"mount failed: exit status 32: mount: /m: wrong fs type on /dev/vdb":                             "another filesystem",
		"mount failed: exit status 32: mount: /m: bad superblock on /dev/vdb":                            "another filesystem",
		"applyFSGroup failed for vol h: lchown /var/lib/kubelet/pods/u/volumes: operation not permitted": "Read the kubelet's message",
	} {
		if got := mountAdvice(message); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

func TestFinalizerHolders(t *testing.T) {
	for finalizer, want := range map[string]string{
		"kubernetes.io/pvc-protection":                                       "kube-controller-manager", // kubernetes/kubernetes#69697
		"external-attacher/disk-example-com":                                 "external-attacher",       // AT-A4
		"external-provisioner.volume.kubernetes.io/finalizer":                "external-provisioner",    // kubernetes-csi/external-provisioner#1235
		"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection": "snapshot-controller",
		"backup.example.org/hold":                                            "", // kubernetes/kubernetes#60807
	} {
		if got := holderOf(finalizer); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", finalizer, got, want)
		}
	}
}

// A quota that refuses a claim shows in the event of the controller that wanted it
// (kubernetes/kubernetes#55713).
func TestQuota(t *testing.T) {
	const refused = `create Claim data-0 failed: persistentvolumeclaims "data-0" is forbidden: exceeded quota: tight, ` +
		`requested: requests.storage=5Gi, used: requests.storage=8Gi, limited: requests.storage=10Gi`
	event := func(message string, at metav1.Time) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "shop", Name: "db"}, Message: message, LastTimestamp: at,
		}
	}
	for name, tc := range map[string]struct {
		event *corev1.Event
		want  string
	}{
		"storage":       {event(refused, ago(time.Minute)), "tight"},
		"long ago":      {event(refused, ago(time.Hour)), "none"},
		"only the CPU":  {event("exceeded quota: tight, requested: cpu=2", ago(0)), "none"},
		"another cause": {event("persistentvolumeclaims: requests.storage must not be zero", ago(0)), "none"},
	} {
		full := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tight"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"requests.storage": resource.MustParse("10Gi")},
			Used: corev1.ResourceList{"requests.storage": resource.MustParse("8Gi")},
		}}
		reports := (&Cluster{Now: noon, Events: []*corev1.Event{tc.event}, Quotas: []*corev1.ResourceQuota{full}}).Prepare().quotaReports()
		got := "none"
		if len(reports) > 0 && reports[0].Findings[0].Reason == verdict.QuotaExceeded {
			got = reports[0].Findings[0].Cause.Name
		}
		if got != tc.want {
			t.Errorf("%s: quota %q, want %q", name, got, tc.want)
		}
	}
}

// Findings that need an action come first, findings that resolve by themselves last; the oldest
// first within each.
func TestGroups(t *testing.T) {
	report := func(reason verdict.Reason, cause string, actor Actor, since time.Time) Report {
		return Report{State: Stuck, Object: Ref{Kind: Claim, Name: cause + since.String()}, Findings: []Finding{{
			Reason: reason, Cause: Ref{Kind: Class, Name: cause}, Actor: actor, Since: &since,
		}}}
	}
	groups := GroupByCause([]Report{
		report(verdict.AttachUnderWay, "itself", Itself, noon.Add(-time.Hour)), report(verdict.ClassMissing, "gold", User, noon),
		report(verdict.ClassMissing, "lead", User, noon.Add(-time.Minute)), report(verdict.ClassMissing, "gold", User, noon.Add(-time.Second)),
		report(verdict.ClaimLost, "lost", Administrator, noon),
		{State: Well},
	})
	var got []string
	for _, g := range groups {
		got = append(got, g.Cause.Name)
	}
	if order := strings.Join(got, " "); order != "lost lead gold itself" || len(groups[2].Objects) != 2 {
		t.Errorf("groups %s, %d claims wait for gold", order, len(groups[2].Objects))
	}
}
