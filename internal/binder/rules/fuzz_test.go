package binding

import (
	"encoding/json"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// FuzzDecide holds that no object with odd or missing fields makes anything panic, and that every
// answer but a read has a reason.
func FuzzDecide(f *testing.F) {
	for _, seed := range [][3]string{
		{`{}`, `{}`, `{}`},
		{
			`{"metadata":{"name":"c","uid":"u"},"spec":{"volumeName":"v"}}`,
			`{"metadata":{"name":"v"},"spec":{"claimRef":{"name":"c","uid":"u"}}}`, `null`,
		},
		{`null`, `{"spec":{"claimRef":{}},"status":{"phase":"Bound"}}`, `{"volumeBindingMode":null}`},
		{`{"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":""}}}`, `null`, `{"provisioner":"kubernetes.io/"}`},
		{
			`{"spec":{"selector":{"matchExpressions":[{"operator":"?"}]}}}`, `{"spec":{"capacity":{"storage":"-1"}}}`,
			`{"provisioner":"d"}`,
		},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), []byte(seed[2]), uint8(0))
	}
	f.Fuzz(func(t *testing.T, claimText, volumeText, classText []byte, flags uint8) {
		var c *pvc
		var v *pv
		var class *storagev1.StorageClass
		if json.Unmarshal(claimText, &c) != nil || json.Unmarshal(volumeText, &v) != nil ||
			json.Unmarshal(classText, &class) != nil {
			t.Skip("not objects")
		}
		s := Snapshot{Claim: c, Class: class, ClaimAsked: flags&1 != 0, VolumesAsked: flags&2 != 0, InProcess: flags&4 != 0}
		if flags&8 != 0 {
			s.Default = class
		}
		if c != nil {
			s.Key.Claim = types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
			x := NewIndex()
			x.Await(c)
			if v != nil {
				x.BestClaim(v)
				x.Offer(v)
			}
			x.BestVolume(c)
			x.Forget(s.Key.Claim)
		}
		if v != nil {
			switch {
			case v.Spec.ClaimRef != nil:
				s.Refs = []*pv{v}
			case flags&16 != 0:
				s.Offer = v
			default:
				s.Named = v
			}
			if c != nil {
				AtRest(c, v)
			}
		}
		got := Decide(s)
		if asks, ok := got.(verdict.Read[Action]); ok && len(asks.Refs) > 0 {
			return
		}
		if got == nil || got.Because().Reason == "" {
			t.Errorf("no reason: %v", got)
		}
	})
}
