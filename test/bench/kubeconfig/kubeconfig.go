// Package kubeconfig writes the file by which a benchmark's program finds the API server.
package kubeconfig

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Write writes a kubeconfig with the token of a configuration to a path.
func Write(path string, config *rest.Config) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["bench"] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
	}
	k.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	k.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	k.CurrentContext = "bench"
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
