package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/deploy"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
)

const (
	fieldOwner = client.FieldOwner("purser-up")
	// DefaultClass is the StorageClass of the development cluster.
	DefaultClass = "purser"
)

// Setup creates the objects in a new cluster that an administrator would create.
type Setup struct {
	Admin  *rest.Config
	Client client.Client
}

// New returns a Setup that acts as the administrator.
func New(admin *rest.Config) (Setup, error) {
	scheme := kube.NewScheme()
	if err := authenticationv1.AddToScheme(scheme); err != nil {
		return Setup{}, fmt.Errorf("scheme: %w", err)
	}
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		return Setup{}, fmt.Errorf("api server: %w", err)
	}
	return Setup{Admin: admin, Client: c}, nil
}

// ApplyRoles applies the shipped manifests of every role and the admission policies, and no permission
// beyond them: with these each role is tested.
func (f Setup) ApplyRoles(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: process.SystemNamespace}}
	if err := f.create(ctx, namespace); err != nil {
		return err
	}
	return errors.Join(f.applyAll(ctx, deploy.RBAC), f.applyAll(ctx, deploy.Policy))
}

// applyAll applies all manifests of a file system.
func (f Setup) applyAll(ctx context.Context, manifests fs.FS) error {
	return fs.WalkDir(manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := manifests.Open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		defer file.Close()
		return f.Apply(ctx, path, file)
	})
}

// Apply applies the manifests of a file with server-side apply.
func (f Setup) Apply(ctx context.Context, path string, manifests io.Reader) error {
	decoder := yaml.NewYAMLOrJSONDecoder(manifests, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.Client.Apply(
				ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership,
			)
		}
		if err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
	}
}

// tokenLifetime outlasts any development session; each `up` asks for a new token.
const tokenLifetime = 365 * 24 * time.Hour

// ConfigFor is the configuration of a role under its own service account.
func (f Setup) ConfigFor(ctx context.Context, serviceAccount string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: process.SystemNamespace, Name: serviceAccount},
	}
	token := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime.Seconds()))},
	}
	if err := f.Client.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("token for service account %s: %w", serviceAccount, err)
	}
	config := rest.AnonymousClientConfig(f.Admin)
	config.BearerToken = token.Status.Token
	return config, nil
}

// CreateClass creates the default StorageClass for the driver, unless another class is the default
// already. A class with another binding mode is replaced, since the field is immutable.
func (f Setup) CreateClass(ctx context.Context, driver csirpc.Description, mode storagev1.VolumeBindingMode) error {
	var classes storagev1.StorageClassList
	if err := f.Client.List(ctx, &classes); err != nil {
		return fmt.Errorf("storage classes: %w", err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		if class.Name == DefaultClass && (class.Provisioner != driver.Name ||
			ptr.Deref(class.VolumeBindingMode, mode) != mode) {
			if err := f.Client.Delete(ctx, class); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("previous storage class %s: %w", DefaultClass, err)
			}
		}
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        DefaultClass,
			Annotations: map[string]string{names.AnnDefaultStorageClass: "true"},
		},
		Provisioner:          driver.Name,
		VolumeBindingMode:    &mode,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		AllowVolumeExpansion: new(Expands(driver)),
	}
	return f.create(ctx, class)
}

// Expands reports whether the driver can expand volumes, which takes csi-resizer.
func Expands(driver csirpc.Description) bool {
	return driver.Controller[csi.ControllerServiceCapability_RPC_EXPAND_VOLUME]
}

// Attaches reports whether the volumes of the driver are attached to nodes, which takes csi-attacher.
func Attaches(driver csirpc.Description) bool {
	return driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}

// create creates the object unless it exists.
func (f Setup) create(ctx context.Context, object client.Object) error {
	err := f.Client.Create(ctx, object)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf(
			"create %T %s: %w",
			object,
			types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
			err,
		)
	}
	return nil
}
