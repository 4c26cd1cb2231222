package journal

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// mostRepeated bounds the annotation. With more claims than that it is not written, and each deletion
// waits for the end of a previous leader's calls.
const mostRepeated = 100

// setRepeated writes the claims whose request may have been sent more than once.
func setRepeated(lease *coordinationv1.Lease, claims []types.UID) {
	if len(claims) > mostRepeated {
		delete(lease.Annotations, names.AnnIntentsRepeated)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	words := make([]string, len(claims))
	for i, claim := range claims {
		words[i] = string(claim)
	}
	lease.Annotations[names.AnnIntentsRepeated] = strings.Join(words, " ")
}

// markOnce sets [intent.Entry.Once] of the entries of a Lease.
func markOnce(lease *coordinationv1.Lease, entries []intent.Entry) {
	text, known := lease.Annotations[names.AnnIntentsRepeated]
	claims := strings.Fields(text)
	for i := range entries {
		entries[i].Once = known && !slices.Contains(claims, string(entries[i].UID))
	}
}

// repeated returns the claims of the entries whose request may have been sent more than once.
func (l left) repeated() (claims []types.UID) {
	for _, e := range l.entries {
		if !e.Once {
			claims = append(claims, e.UID)
		}
	}
	return claims
}
