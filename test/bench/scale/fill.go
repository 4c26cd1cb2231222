package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/bench/runner"
)

const (
	// fillClients is the number of clients that fill the cluster. Each has connections of its own with
	// HTTP/1.1: on one connection the writes wait for each other.
	fillClients = 4
	// fillWriters is how many writes are in flight.
	fillWriters = 48
	// reportEvery is how often the progress is printed.
	reportEvery = 30 * time.Second
)

// The writers of the objects in a cluster. The API server keeps a record of fields for each.
const (
	byUser        = client.FieldOwner("kubectl-client-side-apply")
	byProvisioner = client.FieldOwner("csi-provisioner")
	byControllers = client.FieldOwner("kube-controller-manager")
	byAttacher    = client.FieldOwner("csi-attacher")
	byKubelet     = client.FieldOwner("kubelet")
)

// filler writes the objects of a cluster as users, nodes and the controllers of a stock cluster leave
// them, so that a program which starts beside them has nothing to write.
type filler struct {
	size
	apis []client.Client
}

func newFiller(r *runner.Run, s size) (*filler, error) {
	f := &filler{size: s}
	for range fillClients {
		config, err := r.Config(accountLoad)
		if err != nil {
			return nil, err
		}
		api, err := client.New(kube.DedicatedTransport(config), client.Options{Scheme: r.API.Scheme()})
		if err != nil {
			return nil, err
		}
		f.apis = append(f.apis, api)
	}
	return f, nil
}

// fill writes all objects.
func (f *filler) fill(ctx context.Context) error {
	perNode := (f.Attachments + f.Nodes - 1) / f.Nodes
	for _, part := range []struct {
		what string
		n    int
		do   func(context.Context, client.Client, int) error
	}{
		{"namespaces", (max(f.Pairs, f.Pods) + perNamespace - 1) / perNamespace, f.namespace},
		{
			"nodes", f.Nodes,
			func(ctx context.Context, api client.Client, i int) error { return f.node(ctx, api, i, perNode) },
		},
		{"claims and volumes", f.Pairs, f.pair},
		{"pods", f.Pods, f.pod},
	} {
		if err := f.each(ctx, part.what, part.n, part.do); err != nil {
			return fmt.Errorf("write %s: %w", part.what, err)
		}
	}
	return nil
}

// each calls a function for each number below n, and prints the progress.
func (f *filler) each(
	ctx context.Context, what string, n int, do func(context.Context, client.Client, int) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fillWriters)
	began, reported := time.Now(), time.Now()
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, f.apis[i%len(f.apis)], i) })
		if time.Since(reported) > reportEvery {
			reported = time.Now()
			fmt.Fprintf(os.Stderr, "  %s: %d of %d\n", what, i, n)
		}
	}
	err := group.Wait()
	fmt.Fprintf(os.Stderr, "  %s: %d in %s\n", what, n, time.Since(began).Round(time.Second))
	return err
}

// namespace creates a namespace and the service account of its pods.
func (f *filler) namespace(ctx context.Context, api client.Client, i int) error {
	return createNamespace(ctx, api, namespaceOf(i*perNamespace))
}

func createNamespace(ctx context.Context, api client.Client, name string) error {
	err := api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
	return errors.Join(client.IgnoreAlreadyExists(err), client.IgnoreAlreadyExists(api.Create(ctx, account)))
}

// node creates a node with the volumes of its attachments, and its CSINode.
func (f *filler) node(ctx context.Context, api client.Client, i, perNode int) error {
	var handles []string
	for at := i; at < f.attached() && len(handles) < perNode; at += f.Nodes {
		handles = append(handles, handleOf(at))
	}
	if err := api.Create(ctx, newNode(nodeName(i), handles...), byKubelet); err != nil {
		return err
	}
	return api.Create(ctx, newCSINode(nodeName(i)), byKubelet)
}

// attached is the number of pairs with an attachment.
func (f *filler) attached() int { return min(f.Attachments, f.Pairs, f.Pods) }

// pair creates a bound claim with its volume, and the attachment if there is one.
func (f *filler) pair(ctx context.Context, api client.Client, i int) error {
	claim := runner.NewClaim(namespaceOf(i), claimName(i), new(className))
	if err := api.Create(ctx, claim, byUser); err != nil {
		return err
	}
	isAttached := i < f.attached()
	pv := runner.ProvisionedVolume(claim, driverName, handleOf(i), isAttached)
	if err := api.Create(ctx, pv, byProvisioner); err != nil {
		return err
	}
	pv.Status.Phase = corev1.VolumeBound
	if err := api.Status().Update(ctx, pv, byControllers); err != nil {
		return err
	}
	bind(claim, pv.Name)
	if err := api.Update(ctx, claim, byControllers); err != nil {
		return err
	}
	claim.Status = boundStatus()
	if isAttached {
		claim.Status = boundStatus("a pod")
	}
	if err := api.Status().Update(ctx, claim, byControllers); err != nil || !isAttached {
		return err
	}
	attachment := newAttachment(pv.Name, handleOf(i), nodeName(i%f.Nodes))
	if err := api.Create(ctx, attachment, byControllers); err != nil {
		return err
	}
	attachment.Status.Attached = true
	return api.Status().Update(ctx, attachment, byAttacher)
}

// pod creates a pod that runs. The first pods use the claims with an attachment, the others have none.
func (f *filler) pod(ctx context.Context, api client.Client, i int) error {
	claim := ""
	if i < f.attached() {
		claim = claimName(i)
	}
	name := types.NamespacedName{Namespace: namespaceOf(i), Name: fmt.Sprintf("app-%06d", i)}
	pod := newPod(name, nodeName(i%f.Nodes), claim)
	if err := api.Create(ctx, pod, byUser); err != nil {
		return err
	}
	pod.Status = runningStatus()
	return api.Status().Update(ctx, pod, byKubelet)
}
