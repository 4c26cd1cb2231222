package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/audited"
	"github.com/purser-csi/purser/test/bench/usage"
)

// spent is processor time since the start of the processes.
type spent struct{ programs, apiServer, etcd time.Duration }

func (s spent) since(before spent) spent {
	return spent{s.programs - before.programs, s.apiServer - before.apiServer, s.etcd - before.etcd}
}

// spent reads it. The servers are etcd and the API server, in the order of their start.
func (c *contest) spent() (s spent, err error) {
	for _, p := range c.running {
		one, err := usage.CPUOf(p.Pid())
		if err != nil {
			return s, err
		}
		s.programs += one
	}
	servers, err := usage.ServersIn(c.Dir)
	if err != nil {
		return s, err
	}
	for name, into := range map[string]*time.Duration{"etcd": &s.etcd, "kube-apiserver": &s.apiServer} {
		if *into, err = usage.CPUOf(servers[name]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// print prints it for each of n volumes, and what the API server needs for a request. All requests
// count here: those of the benchmark, which plays users and kubelets, too.
func (s spent) print(n, requests int, took time.Duration) {
	each := func(d time.Duration) string { return audited.Short(d / time.Duration(n)) }
	all := s.programs + s.apiServer + s.etcd
	fmt.Printf("  processor time a volume            programs %s, API server %s, etcd %s: together %.1f processors\n",
		each(s.programs), each(s.apiServer), each(s.etcd), all.Seconds()/took.Seconds())
	fmt.Printf("  requests of all                    %.2f a volume, %s of the API server each\n",
		float64(requests)/float64(n), audited.Short(s.apiServer/time.Duration(requests)))
}

// eventsAfter is how long the events of attaches may take: those of ours wait for other writes, half
// a minute at most.
const eventsAfter = 45 * time.Second

// events waits until there is an event about the attach of each pod.
func (c *contest) events(ctx context.Context, all []placed) error {
	began, have := time.Now(), map[string]bool{}
	for {
		clear(have)
		var list corev1.EventList
		err := c.API.List(ctx, &list, client.InNamespace(audited.Namespace), client.MatchingFields{"reason": "SuccessfulAttachVolume"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			have[list.Items[i].InvolvedObject.Name] = true
		}
		count := 0
		for _, p := range all {
			if have[podOf(p).Name] {
				count++
			}
		}
		if took := time.Since(began); count == len(all) || took > eventsAfter {
			fmt.Printf("  events of attaches                 %d of %d, the last one within %s of the last detach\n",
				count, len(all), took.Round(time.Second))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
