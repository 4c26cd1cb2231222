package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/purser-csi/purser/internal/cluster/pki"
	"github.com/purser-csi/purser/internal/cluster/process"
)

const (
	serviceRange = "10.0.0.0/24"
	serviceIP    = "10.0.0.1" // the first of the range: where `kubernetes.default` is
)

// credentials are the certificates and keys of the components.
type credentials struct {
	authority      string
	etcd           pki.Pair // serves etcd, and is the API server's proof to etcd
	server         pki.Pair
	admin          pki.Pair
	clients        map[Component]pki.Pair
	serviceAccount string // signs service account tokens
}

func etcdSpec() pki.Spec {
	return pki.Spec{Name: "etcd", User: "etcd", Hosts: []string{loopback}}
}

func serverSpec() pki.Spec {
	return pki.Spec{Name: string(APIServer), User: string(APIServer), Hosts: []string{
		loopback, serviceIP, "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}}
}

func adminSpec() pki.Spec {
	return pki.Spec{Name: "admin", User: "purser-admin", Group: "system:masters"}
}

// clientSpec is a component's identity, which the API server's built-in roles know by this name.
func clientSpec(c Component) pki.Spec {
	return pki.Spec{Name: string(c), User: "system:" + string(c)}
}

// issue brings every certificate and key up to date.
func issue(a *pki.Authority, optional Components) (credentials, error) {
	c := credentials{authority: a.Cert(), clients: map[Component]pki.Pair{}}
	var err error
	for _, want := range []struct {
		spec pki.Spec
		pair *pki.Pair
	}{
		{etcdSpec(), &c.etcd}, {serverSpec(), &c.server}, {adminSpec(), &c.admin},
	} {
		if *want.pair, err = a.Issue(want.spec); err != nil {
			return c, err
		}
	}
	for _, component := range optional {
		if c.clients[component], err = a.Issue(clientSpec(component)); err != nil {
			return c, err
		}
	}
	c.serviceAccount, err = a.SigningKey("service-account")
	return c, err
}

// restConfig returns a client's configuration with its certificates inline, so that it needs no
// file. It has no client-side rate limit: API Priority and Fairness of the server is the limit.
func (c credentials) restConfig(pair pki.Pair, host string) (*rest.Config, error) {
	cfg := &rest.Config{Host: host, QPS: -1}
	for path, data := range map[string]*[]byte{
		c.authority: &cfg.CAData, pair.Cert: &cfg.CertData, pair.Key: &cfg.KeyData,
	} {
		var err error
		if *data, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading the credentials of a client: %w", err)
		}
	}
	return cfg, nil
}

func writeKubeconfig(path string, cfg *rest.Config) error {
	const name = "purser"
	data, err := clientcmd.Write(api.Config{
		CurrentContext: name,
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters:       map[string]*api.Cluster{name: {Server: cfg.Host, CertificateAuthorityData: cfg.CAData}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData,
		}},
	})
	if err == nil {
		err = process.WritePrivateFile(path, data)
	}
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}
