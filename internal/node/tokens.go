package node

import (
	"context"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// podTokens are the tokens of a pod's service account for one call. They are in memory for the call
// only.
type podTokens struct {
	value     string
	inSecrets bool
}

func (t podTokens) addTo(m *map[string]string) {
	if t.value == "" {
		return
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[mounting.TokensKey] = t.value
}

// tokens requests what the driver wants (5.6). Each is bound to the pod, so it ends with it.
func (a *Agent) tokens(ctx context.Context, info *storagev1.CSIDriver, use mounting.Use) (podTokens, error) {
	requests, inSecrets := mounting.TokenRequests(info, use)
	if len(requests) == 0 {
		return podTokens{}, nil
	}
	answers := map[string]authenticationv1.TokenRequestStatus{}
	for _, r := range requests {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: r.ExpiresIn,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: use.Pod.Name, UID: use.Pod.UID,
			},
		}}
		if r.Audience != "" {
			request.Spec.Audiences = []string{r.Audience}
		}
		account := &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: use.Pod.Namespace, Name: use.Pod.Spec.ServiceAccountName},
		}
		if err := a.Writer.SubResource("token").Create(ctx, account, request); err != nil {
			return podTokens{}, fmt.Errorf(
				"token of service account %s/%s for the driver: %w", account.Namespace, account.Name, err,
			)
		}
		answers[r.Audience] = request.Status
	}
	raw, err := json.Marshal(answers)
	return podTokens{value: string(raw), inSecrets: inSecrets}, err
}
