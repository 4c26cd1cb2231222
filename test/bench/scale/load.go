package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
)

// newNodes is the number of nodes of the new attachments.
const newNodes = 20

func newNodeName(i int) string { return fmt.Sprintf("new-%02d", i%newNodes) }

// load creates and deletes what is measured.
type load struct {
	api  client.Client
	made int // claims so far
}

// operation is a burst of one kind.
type operation struct {
	PerSecond float64       `json:"perSecond"`
	P50       time.Duration `json:"p50"`
	P99       time.Duration `json:"p99"`
}

// operationOf returns the rate of n results since began, and the percentiles of the single times.
func operationOf(began time.Time, each []time.Duration) operation {
	return operation{
		PerSecond: float64(len(each)) / time.Since(began).Seconds(),
		P50:       runner.Percentile(each, 50), P99: runner.Percentile(each, 99),
	}
}

// burst is a life of new claims: all are created at once, some are attached and detached, all are deleted.
type burst struct{ Bind, Attach, Detach, Delete operation }

// names returns new names of claims.
func (l *load) names(n int) (all []string) {
	for range n {
		l.made++
		all = append(all, fmt.Sprintf("claim-%06d", l.made))
	}
	return all
}

// burst plays the life of so many claims and attachments.
func (l *load) burst(ctx context.Context, o *observer, claims, attachments int) (b burst, err error) {
	all := l.names(claims)
	if b.Bind, err = l.bind(ctx, o, all); err != nil {
		return b, err
	}
	some := all[:min(attachments, len(all))]
	if b.Attach, err = l.attach(ctx, o, some); err != nil {
		return b, err
	}
	if b.Detach, err = l.detach(ctx, o, some); err != nil {
		return b, err
	}
	b.Delete, err = l.delete(ctx, o, all)
	return b, err
}

func (l *load) bind(ctx context.Context, o *observer, claims []string) (operation, error) {
	var begun runner.Times
	began := time.Now()
	err := runner.Each(ctx, claims, func(ctx context.Context, name string) error {
		begun.Add(name)
		return l.api.Create(ctx, runner.NewClaim(newNamespace, name, new(className)), byUser)
	})
	if err == nil {
		err = o.await(ctx, "claims that are bound", &o.bound, claims)
	}
	return operationOf(began, timesOf(claims, &begun, &o.bound, slices.Clone)), err
}

// timesOf returns the time from begun to ended of each claim; the ends are by the names that key returns.
func timesOf(
	claims []string, begun, ended *runner.Times, key func([]string) []string,
) (all []time.Duration) {
	for i, name := range key(claims) {
		if took, ok := ended.After(name, begun, claims[i]); ok {
			all = append(all, took)
		}
	}
	return all
}

// volumesOf returns the volumes of bound claims.
func (o *observer) volumesOf(claims []string) []string {
	all := make([]string, len(claims))
	for i, claim := range claims {
		all[i] = o.volumeOf(claim)
	}
	return all
}

func podOf(claim string) *corev1.Pod {
	var i int
	_, _ = fmt.Sscanf(claim, "claim-%d", &i) // names returns no others
	return newPod(types.NamespacedName{Namespace: newNamespace, Name: "pod-" + claim}, newNodeName(i), claim)
}

func (l *load) attach(ctx context.Context, o *observer, claims []string) (operation, error) {
	var begun runner.Times
	began := time.Now()
	err := runner.Each(ctx, claims, func(ctx context.Context, name string) error {
		begun.Add(name)
		return l.api.Create(ctx, podOf(name), byUser)
	})
	if err == nil {
		err = o.await(ctx, "volumes that are attached", &o.attached, o.volumesOf(claims))
	}
	return operationOf(began, timesOf(claims, &begun, &o.attached, o.volumesOf)), err
}

// detach deletes the pods. The nodes do not report the volumes in use, so each is detached at once.
func (l *load) detach(ctx context.Context, o *observer, claims []string) (operation, error) {
	var begun runner.Times
	began := time.Now()
	err := runner.Each(ctx, claims, func(ctx context.Context, name string) error {
		begun.Add(name)
		return l.api.Delete(ctx, podOf(name), client.GracePeriodSeconds(0))
	})
	if err == nil {
		err = o.await(ctx, "volumes that are detached", &o.detached, o.volumesOf(claims))
	}
	return operationOf(began, timesOf(claims, &begun, &o.detached, o.volumesOf)), err
}

func (l *load) delete(ctx context.Context, o *observer, claims []string) (operation, error) {
	var begun runner.Times
	began := time.Now()
	err := runner.Each(ctx, claims, func(ctx context.Context, name string) error {
		begun.Add(name)
		return l.api.Delete(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace, Name: name},
		})
	})
	if err == nil {
		err = o.await(ctx, "volumes that are deleted", &o.deleted, o.volumesOf(claims))
	}
	return operationOf(began, timesOf(claims, &begun, &o.deleted, o.volumesOf)), err
}

// bareWrites is how many objects bare creates and deletes.
const bareWrites = 1000

// bare returns the writes in a second of a client without logic: how fast the API server is at this size
// on this machine at this moment.
func (l *load) bare(ctx context.Context) (perSecond float64, err error) {
	began := time.Now()
	err = runner.Each(ctx, l.names(bareWrites), func(ctx context.Context, name string) error {
		claim := runner.NewClaim(newNamespace, "bare-"+name, new("no-class"))
		if err := l.api.Create(ctx, claim, byUser); err != nil {
			return err
		}
		claim.Finalizers = nil
		if err := l.api.Update(ctx, claim, byUser); err != nil {
			return err
		}
		return l.api.Delete(ctx, claim)
	})
	const writesEach = 3
	return bareWrites * writesEach / time.Since(began).Seconds(), err
}

// median returns the median of each figure over bursts.
func median(all []burst) burst {
	pick := func(one func(burst) operation) operation {
		figure := func(of func(operation) float64) float64 {
			values := make([]float64, 0, len(all))
			for _, b := range all {
				values = append(values, of(one(b)))
			}
			return runner.Median(values)
		}
		return operation{
			PerSecond: figure(func(o operation) float64 { return o.PerSecond }),
			P50:       time.Duration(figure(func(o operation) float64 { return float64(o.P50) })),
			P99:       time.Duration(figure(func(o operation) float64 { return float64(o.P99) })),
		}
	}
	return burst{
		Bind:   pick(func(b burst) operation { return b.Bind }),
		Attach: pick(func(b burst) operation { return b.Attach }),
		Detach: pick(func(b burst) operation { return b.Detach }),
		Delete: pick(func(b burst) operation { return b.Delete }),
	}
}
