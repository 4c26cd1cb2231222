package runner

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/purser-csi/purser/test/e2e/leftover"
)

// Memory is what is resident of a process, in bytes.
type Memory struct{ Now, Anonymous, Most int64 }

// serversIn returns the process ids of the cluster in a folder: of etcd and of kube-apiserver.
func serversIn(dir string) (pids map[string]int, err error) {
	processes, err := leftover.Processes(dir)
	if err != nil {
		return nil, err
	}
	pids = map[string]int{}
	for _, p := range processes {
		program, _, _ := strings.Cut(p.Command, " ")
		if name := filepath.Base(program); name == "etcd" || name == "kube-apiserver" {
			pids[name] = p.Pid
		}
	}
	return pids, nil
}

// Servers returns the process ids of etcd and of kube-apiserver by their names.
func (r *Run) Servers() map[string]int { return r.servers }

// Usage is what a process has used: processor time since its start, and memory now.
type Usage struct {
	CPU time.Duration
	Memory
}

// UsageOf reads the usage of a process.
func UsageOf(pid int) (u Usage, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, fmt.Errorf("usage: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return u, fmt.Errorf("processor time: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return u, fmt.Errorf("memory: %w", err)
	}
	u.CPU = time.Duration(stat.CPUTime() * float64(time.Second))
	u.Memory = Memory{Now: int64(status.VmRSS), Anonymous: int64(status.RssAnon), Most: int64(status.VmHWM)}
	return u, nil
}

// Spent is the usage of the programs of a contender, and the processor time of the servers.
type Spent struct {
	Programs        []Usage
	APIServer, Etcd time.Duration
}

// Spent reads the usage of processes and of the servers.
func (r *Run) Spent(processes []*Process) (s Spent, err error) {
	for _, p := range processes {
		one, err := UsageOf(p.Pid())
		if err != nil {
			return s, err
		}
		s.Programs = append(s.Programs, one)
	}
	for name, into := range map[string]*time.Duration{"etcd": &s.Etcd, "kube-apiserver": &s.APIServer} {
		one, err := UsageOf(r.servers[name])
		if err != nil {
			return s, err
		}
		*into = one.CPU
	}
	return s, nil
}

// Since returns the processor time since an earlier reading, and the memory of the later one.
func (s Spent) Since(before Spent) Spent {
	d := Spent{APIServer: s.APIServer - before.APIServer, Etcd: s.Etcd - before.Etcd}
	for i, p := range s.Programs {
		p.CPU -= before.Programs[i].CPU
		d.Programs = append(d.Programs, p)
	}
	return d
}

// CPU returns the processor time of all programs.
func (s Spent) CPU() (all time.Duration) {
	for _, p := range s.Programs {
		all += p.CPU
	}
	return all
}

// PerVolume prints it for each of n volumes, and what the API server needs for a request. All requests
// count here: those of the benchmark, which plays users and kubelets, too.
func (s Spent) PerVolume(n, requests int, took time.Duration) string {
	each := func(d time.Duration) string { return Short(d / time.Duration(n)) }
	all := s.CPU() + s.APIServer + s.Etcd
	return fmt.Sprintf("  processor time a volume            programs %s, API server %s, etcd %s: together %.1f "+
		"processors\n",
		each(s.CPU()), each(s.APIServer), each(s.Etcd), all.Seconds()/took.Seconds()) +
		fmt.Sprintf("  requests of all                    %.2f a volume, %s of the API server each\n",
			float64(requests)/float64(n), Short(s.APIServer/time.Duration(requests)))
}
