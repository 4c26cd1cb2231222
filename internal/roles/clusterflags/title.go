package clusterflags

import "cmp"

// Title names the cluster for a reader: by its context, or by its address where there is none.
func (c *Flags) Title() string {
	if c.API != nil {
		return c.API.Host
	}
	config, err := c.loader().RawConfig()
	if err != nil {
		return "cluster"
	}
	return cmp.Or(c.overrides.CurrentContext, config.CurrentContext, c.overrides.ClusterInfo.Server, "cluster")
}
