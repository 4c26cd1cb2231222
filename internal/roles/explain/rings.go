package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/telemetry"
)

const (
	// mostRings bounds the roles that a dump asks: there is a node agent for each node.
	mostRings = 32
	// patienceWithRings bounds how long a dump waits for all roles together.
	patienceWithRings = 10 * time.Second
	// ringsOfDump is the part of a dump's size that spans may take.
	ringsOfDump = 8
)

// ring is where a role serves what it did last.
type ring struct {
	name     string // in the dump
	endpoint string
	client   *http.Client
	spans    []telemetry.Span
	err      error
}

// rings reads what roles of Purser did last: of those at the given addresses, and of pods through the API
// server. A role that does not answer in time is left out with a note.
func (o *dumpOptions) rings(ctx context.Context, pods []client.Object) (all []*ring) {
	for _, endpoint := range o.endpoints.URLs {
		u, _ := url.Parse(endpoint) // valid
		r := &ring{name: u.Host, endpoint: endpoint}
		r.client, r.err = o.endpoints.Client(endpoint)
		all = append(all, r)
	}
	all = append(all, o.ringsOfPods(pods)...)
	if len(all) > mostRings {
		o.note([]string{fmt.Sprintf("only %d of %d roles are asked what they did last", mostRings, len(all))})
		all = all[:mostRings]
	}
	ctx, stop := context.WithTimeout(ctx, o.patience)
	defer stop()
	var asked sync.WaitGroup
	for _, r := range all {
		if r.err == nil {
			asked.Go(func() { r.spans, r.err = record.Spans(ctx, r.endpoint, r.client) })
		}
	}
	asked.Wait()
	return slices.DeleteFunc(all, func(r *ring) bool {
		if r.err != nil {
			o.note([]string{fmt.Sprintf("what %s did last is not in the dump: %v", r.name, r.err)})
		}
		return r.err != nil
	})
}

// ringsOfPods returns the pods that serve what they did last, reached through the API server.
func (o *dumpOptions) ringsOfPods(pods []client.Object) (all []*ring) {
	for _, object := range pods {
		pod, isPod := object.(*corev1.Pod)
		if !isPod {
			continue
		}
		port := ringPort(pod)
		if port == "" {
			continue
		}
		config, _, err := o.Config("purser-explain")
		if err != nil {
			return nil
		}
		through, err := rest.HTTPClientFor(config)
		base, _, other := rest.DefaultServerUrlFor(config)
		if err != nil || other != nil {
			return nil
		}
		if isSecure(pod) {
			all = append(all, &ring{name: pod.Namespace + "/" + pod.Name, err: errSecure})
			continue
		}
		path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy", pod.Namespace, pod.Name, port)
		all = append(all, &ring{
			name:     pod.Namespace + "/" + pod.Name,
			endpoint: strings.TrimSuffix(base.String(), "/") + path, client: through,
		})
	}
	return all
}

// errSecure says how a role is asked that asks for a token.
var errSecure = errors.New("it serves with --metrics-secure, and the API server passes no token on to a pod; " +
	"use kubectl port-forward, --role-endpoint=https://127.0.0.1:PORT and --role-token-file")

// isSecure reports whether a pod serves what it did last with --metrics-secure.
func isSecure(pod *corev1.Pod) bool {
	for _, c := range pod.Spec.Containers {
		args := slices.Concat(c.Command, c.Args)
		if argument(args, "purser-life") == "true" && argument(args, "metrics-secure") == "true" {
			return true
		}
	}
	return false
}

// ringPort returns the port at which a pod serves what it did last; empty if it does not.
func ringPort(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodRunning {
		return ""
	}
	for _, c := range pod.Spec.Containers {
		args := slices.Concat(c.Command, c.Args)
		if argument(args, "purser-life") != "true" {
			continue
		}
		address := argument(args, "http-endpoint")
		host, port, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return port
		}
	}
	return ""
}

// argument returns the value of a flag among arguments; "true" for a flag without one, and "false" for none.
func argument(args []string, name string) string {
	value := "false"
	for i, arg := range args {
		given, isFlag := strings.CutPrefix(arg, "--"+name)
		switch {
		case !isFlag:
		case strings.HasPrefix(given, "="):
			value = given[1:]
		case given == "" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			value = args[i+1]
		case given == "":
			value = "true"
		}
	}
	return value
}

// itemsOf returns the items of a dump of some size for what roles did last: of each role the newest.
func itemsOf(rings []*ring, limit int64) (items []map[string]any) {
	for _, r := range rings {
		room := limit / ringsOfDump / int64(len(rings))
		first := len(r.spans)
		for first > 0 {
			text, err := json.Marshal(r.spans[first-1])
			if room -= int64(len(text)) * 2; err != nil || room < 0 { // with the indentation
				break
			}
			first--
		}
		items = append(items, inventory.SpansItem(r.name, r.spans[first:]))
	}
	return items
}

// mostCalls bounds the calls in the answer about an object.
const mostCalls = 5

// lastCalls returns the last calls and decisions about objects, in order of their time.
func lastCalls(cluster *rules.Cluster, refs []rules.Ref, calls []life.Call) (all []life.Call) {
	for _, ref := range refs {
		about := life.CallsAbout(cluster, ref, calls)
		for _, call := range about[max(0, len(about)-mostCalls):] {
			if !slices.Contains(all, call) {
				all = append(all, call)
			}
		}
	}
	return all
}

// calls prints calls to drivers and decisions of controllers.
func (p *printer) calls(calls []life.Call) {
	for i, call := range calls {
		label := "              "
		if i == 0 {
			p.line("")
			label = "Last calls    "
		}
		code := "decided"
		if call.Code != "" {
			code = call.Code + " after " + took(call.To.Sub(call.From))
		}
		p.paragraph(label, "", fmt.Sprintf("%s %s: %s, %s", call.From.UTC().Format(time.RFC3339), call.Name, code,
			orNone(call.Role)))
	}
}
