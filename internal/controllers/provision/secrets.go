package provision

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/kube"
)

// freshSecret is for how long the version of a secret is taken from memory. Each call reads the
// values anew in any case, so this only spares a second read per claim where hundreds of claims use
// one secret.
const freshSecret = 10 * time.Second

// manySecrets is when versions that are no longer fresh are swept away.
const manySecrets = 1024

// secretVersions remembers which version of a secret was seen when. It holds no values.
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

// lookAtSecret says whether the secret is there, before anything with an effect is done (C-62).
func (c *Controller) lookAtSecret(ctx context.Context, ref types.NamespacedName) (provision.Secret, error) {
	if ref.Name == "" {
		return provision.Secret{}, nil
	}
	if version, ok := c.secrets.get(ref, c.Clock.Now()); ok {
		return provision.Secret{Access: provision.Readable, Version: version}, nil
	}
	version, err := kube.SecretVersion(ctx, c.Live, ref)
	access, err := accessOf(ref, err)
	if access == provision.Readable {
		c.secrets.saw(ref, version, c.Clock.Now())
	}
	return provision.Secret{Access: access, Version: version}, err
}

// readSecret reads the values for one call. They must not be kept, nor be put anywhere but into the
// request of the call.
func (c *Controller) readSecret(ctx context.Context, ref types.NamespacedName) (map[string]string, error) {
	values, version, err := kube.SecretValues(ctx, c.Live, ref)
	if err != nil {
		c.secrets.forget(ref)
		return nil, err
	}
	c.secrets.saw(ref, version, c.Clock.Now())
	return values, nil
}

// accessOf tells what a person can mend from what will pass.
func accessOf(ref types.NamespacedName, err error) (provision.Access, error) {
	switch {
	case err == nil:
		return provision.Readable, nil
	case apierrors.IsNotFound(err):
		return provision.Missing, nil
	case apierrors.IsForbidden(err):
		return provision.Forbidden, nil
	}
	return provision.Unknown, fmt.Errorf("read secret %q: %w", ref, err)
}

// withSecrets is the request as it is sent. The one that is on record stays without values.
func withSecrets(request *csi.CreateVolumeRequest, values map[string]string) *csi.CreateVolumeRequest {
	if len(values) == 0 {
		return request
	}
	sent := proto.CloneOf(request)
	sent.Secrets = values
	return sent
}
