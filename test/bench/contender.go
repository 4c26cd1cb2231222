package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/deploy"
	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// contender binds claims.
type contender struct {
	name  string
	start func(context.Context) (*stage.Program, error) // nil for the bare client, which is no program
	bare  bool
	is    func(user string) bool
}

const (
	nameStock = "stock"
	nameOurs  = "purser"
	nameFloor = "floor"

	accountNamespace = "purser-system"
	stockNamespace   = "kube-system"
)

func (c *contest) contenders() []contender {
	stock := map[string]bool{}
	for _, account := range []string{
		"persistent-volume-binder", "pvc-protection-controller", "pv-protection-controller", "expand-controller", "ephemeral-volume-controller",
	} {
		stock[audit.ServiceAccount(stockNamespace, account)] = true
	}
	return []contender{
		{name: nameFloor, bare: true, start: func(context.Context) (*stage.Program, error) { return nil, nil }, is: func(string) bool { return false }},
		{name: nameStock, start: c.startStock, is: func(user string) bool { return stock[user] }},
		{name: nameOurs, start: c.startOurs, is: func(user string) bool { return user == audit.ServiceAccount(accountNamespace, "controllers") }},
	}
}

// startStock lifts the limits of kube-controller-manager, which otherwise are all that would be measured.
func (c *contest) startStock(context.Context) (*stage.Program, error) {
	log, err := os.CreateTemp(c.dir, "kube-controller-manager-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	return stage.Launch(stage.Command{
		Path: filepath.Join(c.bin, string(cluster.ControllerManager)), Output: log,
		Args: []string{
			"--kubeconfig=" + c.cluster.Kubeconfig(), "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=true",
			"--kube-api-qps=10000", "--kube-api-burst=20000", "--controllers=" + strings.Join(cluster.VolumeControllers(), ","),
		},
	})
}

func (c *contest) startOurs(ctx context.Context) (*stage.Program, error) {
	account, err := c.kubeconfig(ctx, "controllers")
	if err != nil {
		return nil, err
	}
	return c.launch("controllers", "--kubeconfig", account)
}

// provisionAs starts the provisioner that all contenders rely on.
func (c *contest) provisionAs(ctx context.Context, account string) (*sidecar, error) {
	address, err := scrape.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &sidecar{address: address}
	if s.Program, err = c.launch("csi-provisioner", "--csi-address", c.socket(), "--kubeconfig", account, "--http-endpoint", address,
		"--leader-election-namespace", accountNamespace); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// grant applies the shipped manifests of the roles.
func (c *contest) grant(ctx context.Context, roles ...string) error {
	for _, role := range roles {
		manifest, err := deploy.RBAC.ReadFile("rbac/" + role + ".yaml")
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = c.api().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("bench"), client.ForceOwnership)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
		}
	}
	return nil
}

// kubeconfig is a file for a service account.
func (c *contest) kubeconfig(ctx context.Context, account string) (string, error) {
	admin := c.cluster.RESTConfig()
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	seconds := int64((24 * time.Hour).Seconds())
	token, err := clients.CoreV1().ServiceAccounts(accountNamespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token for %s: %w", account, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["bench"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: account}
	config.CurrentContext = "bench"
	path := filepath.Join(c.dir, account+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// awaitWork returns when the contender has bound a claim.
func (c *contest) awaitWork(ctx context.Context, name string) error {
	namespace := "probe-" + name + "-" + fmt.Sprint(len(c.rows))
	if err := c.makeNamespace(ctx, namespace); err != nil {
		return err
	}
	one := *c
	one.claims = 1
	w := &work{contest: &one, namespace: namespace}
	if err := w.volumes(ctx, prebound); err != nil {
		return err
	}
	_, _, err := w.bind(ctx, staticClass)
	return errors.Join(err, w.clear(ctx))
}

func (c *contest) makeNamespace(ctx context.Context, name string) error {
	return c.api().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
