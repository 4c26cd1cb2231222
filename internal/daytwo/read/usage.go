package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/kube"
)

// UsageConfig says what of a cluster is read for the usage of claims.
type UsageConfig struct {
	Reader    client.Reader
	API       *rest.Config
	Namespace string   // empty for all
	Claims    []string // names in the namespace; none for all
	Agents    []string // addresses of the metrics of node agents
	Parallel  int      // kubelets that are asked at once
	Timeout   time.Duration
}

// Usage reads the claims and asks the node agents, and the kubelets of the nodes whose pods use the other
// claims. A kubelet that does not answer in time is noted with the reason, and does not hold up the others.
func Usage(ctx context.Context, cfg UsageConfig, now time.Time) (rules.UsageInput, error) {
	l := &lister{from: cfg.Reader, namespace: cfg.Namespace, missing: map[string]string{}}
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	var pods corev1.PodList
	l.list(ctx, rules.KindClaims, &claims, true)
	l.list(ctx, rules.KindVolumes, &volumes, false)
	l.list(ctx, rules.KindPods, &pods, true)
	if why := l.missing[rules.KindClaims]; why != "" && l.err == nil {
		return rules.UsageInput{}, fmt.Errorf(
			"list %s: %s; give -n for a namespace that may be read", rules.KindClaims, why,
		)
	}
	if l.err != nil {
		return rules.UsageInput{}, l.err
	}
	in := rules.UsageInput{
		Now: now, Claims: claims.Items, Volumes: volumes.Items, Pods: pods.Items, Unread: l.unread(),
		PodsUnread: l.missing[rules.KindPods] != "",
	}
	if len(cfg.Claims) > 0 {
		in.Claims = slices.DeleteFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool {
			return !slices.Contains(cfg.Claims, c.Name)
		})
		for _, name := range cfg.Claims {
			if !slices.ContainsFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
				return in, fmt.Errorf("pvc/%s: no such claim in namespace %s", name, cfg.Namespace)
			}
		}
	}
	var err error
	if in.Agents, err = Statistics(ctx, cfg.Agents, cfg.Timeout, now); err != nil {
		return in, err
	}
	nodes, _ := rules.MountingNodes(in.Pods, slices.DeleteFunc(
		slices.Clone(in.Claims), func(c corev1.PersistentVolumeClaim) bool {
			_, known := in.Agents[client.ObjectKeyFromObject(&c)]
			return known
		},
	))
	in.Nodes, err = kubelets(ctx, cfg, nodes)
	return in, err
}

// kubelets asks the kubelets of nodes, some at once.
func kubelets(ctx context.Context, cfg UsageConfig, nodes []string) (map[string]rules.NodeAnswer, error) {
	api := rest.CopyConfig(cfg.API)
	api.APIPath, api.GroupVersion = "/api", &corev1.SchemeGroupVersion
	api.NegotiatedSerializer = serializer.NewCodecFactory(kube.Scheme()).WithoutConversion()
	from, err := rest.RESTClientFor(api)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	answers := map[string]rules.NodeAnswer{}
	var asking errgroup.Group
	asking.SetLimit(max(cfg.Parallel, 1))
	for _, node := range nodes {
		asking.Go(func() error {
			answer := ask(ctx, from, node, cfg.Timeout)
			mu.Lock()
			defer mu.Unlock()
			answers[node] = answer
			return nil
		})
	}
	err = asking.Wait()
	return answers, errors.Join(err, ctx.Err())
}

// mostAnswer bounds the answer of a kubelet: some kilobytes for each of its pods.
const mostAnswer = 64 << 20

// summary is what is read of the answer of a kubelet to /stats/summary.
type summary struct {
	Pods []struct {
		Volumes []struct {
			Time      metav1.Time           `json:"time"`
			Available *uint64               `json:"availableBytes"`
			Capacity  *uint64               `json:"capacityBytes"`
			Used      *uint64               `json:"usedBytes"`
			Inodes    *uint64               `json:"inodes"`
			InodeUsed *uint64               `json:"inodesUsed"`
			Claim     *types.NamespacedName `json:"pvcRef"`
		} `json:"volume"`
	} `json:"pods"`
}

// ask asks one kubelet, through the API server.
func ask(ctx context.Context, from rest.Interface, node string, timeout time.Duration) rules.NodeAnswer {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	answer, err := from.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("stats/summary").Stream(ctx)
	if err == nil {
		defer answer.Close()
		var s summary
		if err = json.NewDecoder(io.LimitReader(answer, mostAnswer)).Decode(&s); err == nil {
			return rules.NodeAnswer{Claims: claimsIn(s)}
		}
		err = fmt.Errorf("its answer cannot be read: %w", err)
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return rules.NodeAnswer{Err: fmt.Sprintf("no answer within %s", timeout)}
	case apierrors.IsForbidden(err):
		return rules.NodeAnswer{Err: "the permission to get nodes/proxy is missing"}
	case strings.Contains(err.Error(), "no preferred addresses found"):
		return rules.NodeAnswer{Err: "its Node has no address: no kubelet has registered there"}
	}
	return rules.NodeAnswer{Err: strings.TrimSpace(err.Error())}
}

func claimsIn(s summary) map[types.NamespacedName]rules.Statistic {
	claims := map[types.NamespacedName]rules.Statistic{}
	for _, pod := range s.Pods {
		for _, v := range pod.Volumes {
			if v.Claim != nil {
				claims[*v.Claim] = rules.Statistic{
					Time: v.Time.Time, Capacity: v.Capacity, Used: v.Used, Available: v.Available, Inodes: v.Inodes,
					InodesUsed: v.InodeUsed,
				}
			}
		}
	}
	return claims
}
