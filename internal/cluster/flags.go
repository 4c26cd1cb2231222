package cluster

import (
	"fmt"
	"strings"
)

// plan has the inputs of the command lines.
type plan struct {
	cfg   Config
	files layout
	creds credentials
	ports ports
}

// arguments are a component's command line, the caller's own arguments last.
func (p plan) arguments(c Component) []string {
	own := map[Component]func() []string{
		Etcd: p.etcdArgs, APIServer: p.apiServerArgs, Scheduler: p.schedulerArgs,
		ControllerManager: p.controllerManagerArgs,
	}
	return append(own[c](), p.cfg.ExtraArgs[c]...)
}

func (p plan) etcdURL() string      { return "https://" + address(p.ports.Etcd) }
func (p plan) apiServerURL() string { return "https://" + address(p.ports.APIServer) }

func (p plan) etcdArgs() []string {
	// A single member has no peers: its peer address is never dialled, so any free port will do,
	// and it can be advertised as 0. It is behind certificates like the other one.
	const peer = "https://" + loopback + ":0"
	args := []string{
		"--name=purser",
		"--data-dir=" + p.files.etcdData(),
		"--listen-client-urls=" + p.etcdURL(),
		"--advertise-client-urls=" + p.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=purser=" + peer,
		"--cert-file=" + p.creds.etcd.Cert,
		"--key-file=" + p.creds.etcd.Key,
		"--trusted-ca-file=" + p.creds.authority,
		"--client-cert-auth",
		"--peer-cert-file=" + p.creds.etcd.Cert,
		"--peer-key-file=" + p.creds.etcd.Key,
		"--peer-trusted-ca-file=" + p.creds.authority,
		"--peer-client-cert-auth",
		"--quota-backend-bytes=4294967296",
		// The API server compacts every five minutes; a restart gives back the space.
		"--bootstrap-defrag-threshold-megabytes=100",
		"--log-level=warn",
	}
	if p.cfg.Durable {
		return args
	}
	// Writes of a killed process are safe in the kernel's page cache. Only a crash of the machine can
	// lose data, which is acceptable in development: fsync is most of the time of a write.
	return append(args, "--unsafe-no-fsync")
}

func (p plan) apiServerArgs() []string {
	args := []string{
		"--bind-address=" + loopback,
		"--advertise-address=" + loopback,
		fmt.Sprintf("--secure-port=%d", p.ports.APIServer),
		// Endpoints must not be loopback addresses, and no pod could reach them.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--cert-dir=" + p.files.pki(),
		"--tls-cert-file=" + p.creds.server.Cert,
		"--tls-private-key-file=" + p.creds.server.Key,
		"--client-ca-file=" + p.creds.authority,
		"--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--allow-privileged=true", // CSI node plugins are
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.creds.serviceAccount,
		"--service-account-signing-key-file=" + p.creds.serviceAccount,
		"--etcd-servers=" + p.etcdURL(),
		"--etcd-cafile=" + p.creds.authority,
		"--etcd-certfile=" + p.creds.etcd.Cert,
		"--etcd-keyfile=" + p.creds.etcd.Key,
	}
	if !p.cfg.Audit {
		return args
	}
	return append(args,
		"--audit-policy-file="+p.files.auditPolicy(),
		"--audit-log-path="+p.files.auditLog(),
		"--audit-log-maxsize=2048", // megabytes: a benchmark counts lines of one file
		"--audit-log-maxbackup=1",
	)
}

// clientArgs are common to the API server's clients. They serve no port and need no delegated
// authorization, which makes the start faster. Their client-side rate limits are off, since a
// benchmark would measure them.
func (p plan) clientArgs(c Component) []string {
	return []string{
		"--kubeconfig=" + p.files.kubeconfig(c),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

func (p plan) schedulerArgs() []string { return p.clientArgs(Scheduler) }

func (p plan) controllerManagerArgs() []string {
	return append(p.clientArgs(ControllerManager),
		"--controllers="+strings.Join(p.cfg.Controllers, ","),
		"--use-service-account-credentials=true",
		"--root-ca-file="+p.creds.authority,
	)
}
