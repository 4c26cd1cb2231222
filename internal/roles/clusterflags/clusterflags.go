package clusterflags

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags say which cluster a command reads, as which user, and in which namespace. They are
// kubectl's, so that the commands work as its plugin.
type Flags struct {
	Kubeconfig string
	Namespace  string       // of the flag; empty for that of the context
	API        *rest.Config // in place of the kubeconfig; nil for none

	overrides clientcmd.ConfigOverrides
}

// Add binds the flags. namespace is the help of the flag --namespace; without one there is no such
// flag.
func (c *Flags) Add(f *pflag.FlagSet, namespace string) {
	f.StringVar(
		&c.Kubeconfig,
		"kubeconfig",
		"",
		"`path` of a kubeconfig; without it KUBECONFIG, then ~/.kube/config, then that of the pod",
	)
	f.StringVar(&c.overrides.CurrentContext, "context", "", "`name` of the kubeconfig's context")
	f.StringVar(&c.overrides.ClusterInfo.Server, "server", "", "`url` of the API server, in place of the kubeconfig's")
	f.StringVar(&c.overrides.AuthInfo.Impersonate, "as", "", "`user` or service account to read as")
	f.StringArrayVar(&c.overrides.AuthInfo.ImpersonateGroups, "as-group", nil,
		"`group` to read as, with --as; may be given several times")
	f.StringVar(
		&c.overrides.Timeout, "request-timeout", "",
		"`duration` of one request at most, such as 10s; without it no limit",
	)
	if namespace != "" {
		f.StringVarP(&c.Namespace, "namespace", "n", "", namespace)
	}
}

// Config returns how the API server is reached, and the namespace of the context. agent is the user
// agent of the requests.
func (c *Flags) Config(agent string) (*rest.Config, string, error) {
	if c.API != nil {
		return c.API, "default", nil
	}
	loader := c.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("no cluster to read: %w; give --kubeconfig", err)
	}
	config.QPS, config.Burst = -1, -1 // some thirty requests in all
	config.UserAgent = agent
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

func (c *Flags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &c.overrides)
}
