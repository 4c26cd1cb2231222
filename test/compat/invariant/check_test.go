package invariant_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/purser-csi/purser/test/compat/invariant"
	"github.com/purser-csi/purser/test/compat/record"
)

// story parses a history: each line is a kind and an object. Lines that begin with + are writes of
// users.
func story(t *testing.T, text string) (history []record.Change, own map[int64]bool) {
	t.Helper()
	own = map[int64]bool{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		at := int64(i + 1)
		line, byUser := strings.CutPrefix(strings.TrimSpace(line), "+ ")
		own[at] = byUser
		line, gone := strings.CutPrefix(line, "gone ")
		name, object, _ := strings.Cut(line, " ")
		kind, ok := record.KindOf(name)
		if !ok {
			t.Fatalf("no kind %s", name)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(object), &o.Object); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		o.SetResourceVersion(fmt.Sprint(at))
		history = append(history, record.Change{At: at, Kind: kind, Gone: gone, Object: o})
	}
	return history, own
}

func TestCheck(t *testing.T) {
	const (
		claim     = `+ pvc {metadata: {name: c, uid: u}, spec: {resources: {requests: {storage: 2Gi}}}, status: {phase: Pending}}` + "\n"
		volume    = `+ pv {metadata: {name: v, uid: w}, spec: {capacity: {storage: 2Gi}, claimRef: {name: c, uid: u}}, status: {phase: Available}}` + "\n"
		bound     = `pvc {metadata: {name: c, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: v, resources: {requests: {storage: 2Gi}}}, status: {phase: Bound}}` + "\n"
		free      = `+ pv {metadata: {name: v, uid: w}, spec: {capacity: {storage: 2Gi}}, status: {phase: Available}}` + "\n"
		taken     = `pv {metadata: {name: v, uid: w, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {capacity: {storage: 2Gi}, claimRef: {name: c, uid: u}}, status: {phase: Bound}}` + "\n"
		wish      = `+ pvc {metadata: {name: c, uid: u}, spec: {volumeName: other, resources: {requests: {storage: 2Gi}}}, status: {phase: Pending}}` + "\n"
		stolen    = `+ pv {metadata: {name: v, uid: w}, spec: {capacity: {storage: 2Gi}}, status: {phase: Available}}` + "\n"
		protected = `+ pod {metadata: {name: p, uid: q}, spec: {nodeName: n1, volumes: [{persistentVolumeClaim: {claimName: c}}]}}
			+ pvc {metadata: {name: c, uid: u, finalizers: [kubernetes.io/pvc-protection]}}
			pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z", finalizers: [kubernetes.io/pvc-protection]}}` + "\n"
		lost   = `pvc {metadata: {name: c, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: v}, status: {phase: Pending}}` + "\n"
		missed = `pvc {metadata: {name: c, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: v}, status: {phase: Lost}}` + "\n"
		rival  = `+ pvc {metadata: {name: d, uid: x}, spec: {volumeName: v}, status: {phase: Pending}}` + "\n"
		rivals = `+ pv {metadata: {name: v, uid: w}, spec: {capacity: {storage: 2Gi}, claimRef: {name: d, uid: x}}, status: {phase: Available}}` + "\n"
		wins   = `pvc {metadata: {name: d, uid: x}, spec: {volumeName: v}, status: {phase: Bound}}` + "\n"
	)
	for name, test := range map[string]struct{ story, want string }{
		"a plain binding":          {claim + volume + bound, ""},
		"I1":                       {claim + volume + bound + rival + wins, "I1"},
		"I2 no volume":             {claim + bound, "I2"},
		"I2 another's":             {claim + strings.Replace(volume, "uid: u}", "uid: z}", 1) + bound, "I2"},
		"I2 taken away":            {claim + volume + stolen + bound, ""},
		"I7 taken away":            {claim + volume + stolen + bound + lost, ""},
		"I7 lost and found":        {claim + volume + bound + lost + bound, "I7"},
		"I7 missed":                {claim + volume + bound + missed + bound, "I7"},
		"I7 given back too late":   {claim + volume + bound + rivals + volume + missed + bound, ""},
		"I7 made again too late":   {claim + volume + bound + "+ gone " + volume[2:] + volume + missed + bound, ""},
		"I7 given back, and again": {claim + volume + bound + rivals + volume + missed + claim + missed + lost, "I7"},
		"I7 given back in time":    {claim + volume + bound + rivals + volume + missed + bound + claim + bound + missed + bound, "I7"},
		"I2 and again":             {claim + volume + stolen + bound + claim + bound, "I2"},
		"I1 taken away":            {claim + volume + bound + stolen + bound + rival + rivals + wins, ""},
		"I1 taken too early":       {claim + volume + stolen + bound + rival + rivals + wins, ""},
		"I1 given back":            {claim + volume + stolen + bound + rival + volume + wins, "I1"},
		"I3":                       {claim + volume + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Released}}`, "I3"},
		"I3 claim is gone":         {claim + volume + `gone pvc {metadata: {name: c, uid: u}}` + "\n" + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Released}}`, ""},
		"I4":                       {volume + `pv {metadata: {name: v, uid: w}, spec: {capacity: {storage: 2Gi}}, status: {phase: Available}}`, "I4"},
		"I5":                       {claim + `pvc {metadata: {name: c, uid: u, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {}, status: {phase: Pending}}`, "I5"},
		"I6":                       {claim + strings.Replace(volume, "storage: 2Gi", "storage: 1Gi", 1) + bound, "I6"},
		"I6 a user's wish":         {claim + strings.Replace(volume, "storage: 2Gi", "storage: 1Gi", 1) + "+ " + bound, ""},
		"I7":                       {volume + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}` + "\n" + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Available}}`, "I7"},
		"I7 a user acted":          {volume + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}` + "\n" + claim + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Available}}`, ""},
		"I7 given to another": {volume + `pv {metadata: {name: v, uid: w}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}
			+ pv {metadata: {name: v, uid: w, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}
			pv {metadata: {name: v, uid: w}, spec: {}, status: {phase: Available}}
			pv {metadata: {name: v, uid: w, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: d, uid: x}}, status: {phase: Bound}}`, ""},
		"I7 given back": {`+ pv {metadata: {name: v, uid: w, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}
			pv {metadata: {name: v, uid: w}, spec: {}, status: {phase: Available}}
			pv {metadata: {name: v, uid: w, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: c, uid: u}}, status: {phase: Bound}}`, "I7"},
		"I7 a user was quicker":    {free + claim + wish + taken + free[2:], ""},
		"I7 and again":             {free + claim + wish + taken + free[2:] + taken + free[2:], "I7"},
		"I7 no client was quicker": {free + claim + taken + free[2:], "I7"},
		"I10":                      {protected + `pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z", finalizers: [other]}}`, "I10"},
		"I10 and gone":             {protected + `gone pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z"}}`, "I10"},
		"I10 a user did it":        {protected + `+ gone pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z"}}`, ""},
		"I10 no node": {`+ pod {metadata: {name: p, uid: q}, spec: {volumes: [{persistentVolumeClaim: {claimName: c}}]}}
			+ pvc {metadata: {name: c, uid: u, finalizers: [kubernetes.io/pvc-protection]}}
			pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z", finalizers: [kubernetes.io/pvc-protection]}}
			pvc {metadata: {name: c, uid: u, deletionTimestamp: "2020-01-01T00:00:00Z", finalizers: [other]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found := invariant.Check(story(t, test.story))
			switch {
			case test.want == "" && len(found) > 0:
				t.Errorf("found %q", found)
			case test.want != "" && (len(found) == 0 || !strings.HasPrefix(found[0], test.want+":")):
				t.Errorf("found %q, want %s", found, test.want)
			}
		})
	}
}
