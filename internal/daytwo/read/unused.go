package read

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
)

// Unused reads the claims of a namespace or of all, and what may use them.
func Unused(ctx context.Context, from client.Reader, namespace string, now time.Time) (rules.UnusedInput, error) {
	l := &lister{from: from, namespace: namespace, missing: map[string]string{}}
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	var jobs batchv1.CronJobList
	l.list(ctx, rules.KindClaims, &claims, true)
	l.list(ctx, rules.KindPods, &pods, true)
	l.list(ctx, "Deployments", &deployments, true)
	l.list(ctx, "StatefulSets", &sets, true)
	l.list(ctx, "CronJobs", &jobs, true)
	if why := l.missing[rules.KindClaims]; why != "" && l.err == nil {
		l.err = fmt.Errorf("list %s: %s; give -n for a namespace that may be read", rules.KindClaims, why)
	}
	return rules.UnusedInput{
		Now: now, Claims: claims.Items, Pods: pods.Items, Deployments: deployments.Items, Sets: sets.Items,
		Jobs: jobs.Items, PodsUnread: l.missing[rules.KindPods] != "", Unread: l.unread(),
	}, l.err
}
