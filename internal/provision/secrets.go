package provision

import (
	"context"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// freshSecret is how long a read resourceVersion of a secret is reused. Each call reads the values
// live in any case; this saves a second read per claim where hundreds of claims use one secret.
const freshSecret = 10 * time.Second

// manySecrets is the number of versions above which outdated ones are removed.
const manySecrets = 1024

// secretVersions caches resourceVersions of secrets. It has no values.
type secretVersions struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]seenSecret
}

type seenSecret struct {
	version string
	at      time.Time
}

func newSecretVersions() *secretVersions {
	return &secretVersions{seen: map[types.NamespacedName]seenSecret{}}
}

func (v *secretVersions) get(ref types.NamespacedName, now time.Time) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one, ok := v.seen[ref]
	return one.version, ok && now.Sub(one.at) < freshSecret
}

func (v *secretVersions) saw(ref types.NamespacedName, version string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.seen) >= manySecrets {
		for old, one := range v.seen {
			if now.Sub(one.at) >= freshSecret {
				delete(v.seen, old)
			}
		}
	}
	v.seen[ref] = seenSecret{version, now}
}

func (v *secretVersions) forget(ref types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen, ref)
}

// secretVersionReader is a reader that caches the resourceVersions of secrets.
type secretVersionReader struct {
	client.Reader
	versions *secretVersions
	clock    clock.PassiveClock
}

// Get implements client.Reader.
func (r secretVersionReader) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	secret, ok := into.(*metav1.PartialObjectMetadata)
	if !ok || secret.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
		return r.Reader.Get(ctx, key, into, options...)
	}
	if version, fresh := r.versions.get(key, r.clock.Now()); fresh {
		secret.Namespace, secret.Name, secret.ResourceVersion = key.Namespace, key.Name, version
		return nil
	}
	err := r.Reader.Get(ctx, key, into, options...)
	if err == nil {
		r.versions.saw(key, secret.ResourceVersion, r.clock.Now())
	}
	return err
}

// readSecret reads the values for one call. They go into the request of the call and are not kept.
func (c *Controller) readSecret(ctx context.Context, ref types.NamespacedName) (map[string]string, error) {
	values, version, err := kube.SecretValues(ctx, c.Live, ref)
	if err != nil {
		c.secrets.forget(ref)
		return nil, err
	}
	c.secrets.saw(ref, version, c.Clock.Now())
	return values, nil
}

// withSecrets returns the request to send. The recorded one stays without values.
func withSecrets(request *csi.CreateVolumeRequest, values map[string]string) *csi.CreateVolumeRequest {
	if len(values) == 0 {
		return request
	}
	sent := proto.CloneOf(request)
	sent.Secrets = values
	return sent
}
