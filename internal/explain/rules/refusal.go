package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// A refusal is a wish that the API server did not take: an object that a controller may not create, or a
// change of one. The object that was wished for does not exist, or has nothing that shows the wish. So it is
// read from events about any object, and recomputed from quotas, limits and templates
// where the events have expired.

// refusedObject finds the object that a message of the API server names, such as
// `persistentvolumeclaims "data-0" is forbidden: …` and `StatefulSet.apps "web" is invalid: …`.
var refusedObject = regexp.MustCompile(`([A-Za-z]+)(?:\.[a-z0-9.]+)? ["']([^"']+)["'] is (?:forbidden|invalid): `)

// wishedObject finds the object that the StatefulSet controller wished for. A webhook's message does not
// name it.
var wishedObject = regexp.MustCompile(`create (Claim|Pod) (\S+?)(?: for Pod \S+)? in StatefulSet `)

// refusedKinds are the words for kinds in such messages: a resource if admission refuses, a kind if
// validation does.
var refusedKinds = map[string]Kind{
	"persistentvolumeclaims": Claim, "persistentvolumeclaim": Claim, "claim": Claim, "pods": Pod, "pod": Pod,
	"statefulsets": StatefulSet, "statefulset": StatefulSet, "deployments": Deployment, "deployment": Deployment,
	"daemonsets": DaemonSet, "daemonset": DaemonSet, "jobs": Job, "job": Job,
}

// WishedIn returns the kind and the name of each object that a message says was wished for and refused.
func WishedIn(message string) (wished []Ref) {
	// Nearly no message matches, and a life looks at the events of many times.
	if !strings.Contains(message, " is forbidden: ") && !strings.Contains(message, " is invalid: ") &&
		!strings.Contains(message, " in StatefulSet ") {
		return nil
	}
	for _, pattern := range []*regexp.Regexp{refusedObject, wishedObject} {
		for _, found := range pattern.FindAllStringSubmatch(message, -1) {
			ref := Ref{Kind: refusedKinds[strings.ToLower(found[1])], Name: found[2]}
			if ref.Kind != "" && !slices.Contains(wished, ref) {
				wished = append(wished, ref)
			}
		}
	}
	return wished
}

// indexRefusals finds the events with refusals by the object that was wished for, newest first.
func (c *Cluster) indexRefusals() {
	c.index.refusals = map[Ref][]*corev1.Event{}
	for _, event := range c.Events {
		for _, ref := range WishedIn(event.Message) {
			ref.Namespace = event.InvolvedObject.Namespace
			c.index.refusals[ref] = append(c.index.refusals[ref], event)
		}
	}
	for _, events := range c.index.refusals {
		slices.SortStableFunc(events, func(a, b *corev1.Event) int { return EventTime(b).Compare(EventTime(a)) })
	}
}

// lastRefusal returns the newest event with a refusal about an object that was wished for; nil for none.
func (c *Cluster) lastRefusal(of Ref) *corev1.Event {
	for _, event := range c.index.refusals[of] {
		if !EventTime(event).After(c.Now.Add(clockSkew)) {
			return event
		}
	}
	return nil
}

// firstSeen is when an event was first written, and the last time where that is not known.
func firstSeen(event *corev1.Event) time.Time {
	if !event.FirstTimestamp.IsZero() {
		return event.FirstTimestamp.Time
	}
	return EventTime(event)
}

// rule recognizes a refusal by its text, and completes the finding about it. ok is false if fields of the
// objects show that the API server would not refuse it any more.
type refusalRule struct {
	text    string
	explain func(c *Cluster, message string, f Finding) (_ Finding, ok bool)
}

var refusalRules = []refusalRule{
	{"exceeded quota: ", (*Cluster).quotaExceeded},
	{"failed quota: ", (*Cluster).quotaUnspecified},
	{" usage per ", (*Cluster).limitExceeded},
	{"denied the request", (*Cluster).webhookDenied},
	{"failed calling webhook", (*Cluster).webhookUnreachable},
	{"violates PodSecurity", (*Cluster).podSecurity},
	{"against any security context constraint", (*Cluster).podSecurity},
	{"PodSecurityPolicy", (*Cluster).podSecurity},
	{"against any pod security policy", (*Cluster).podSecurity},
	{"must support resize", (*Cluster).expansionForbidden},
	{"can not be less than", (*Cluster).shrinkForbidden},
	{"may not be decreased", (*Cluster).shrinkForbidden},
	{"spec is immutable after creation", (*Cluster).claimImmutable},
	{"updates to statefulset spec for fields other than", (*Cluster).templateImmutable},
	{"field is immutable", (*Cluster).templateImmutable},
}

// refusedBy completes a finding whose object was wished for, from the event with the refusal. Its text is
// that of any user of the namespace, so commands have names of objects that exist only.
func (c *Cluster) refusedBy(event *corev1.Event, f Finding) (_ Finding, ok bool) {
	f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	since := firstSeen(event)
	f.Since = &since
	return c.refused(event.Message, f)
}

// refused is [Cluster.refusedBy] for a message in a field.
func (c *Cluster) refused(message string, f Finding) (_ Finding, ok bool) {
	for _, rule := range refusalRules {
		if strings.Contains(message, rule.text) {
			return rule.explain(c, message, f)
		}
	}
	f = f.waits(verdict.RequestRefused, Administrator, "the API server to accept it; it answers %s",
		quote(firstLine(message)))
	f.Fix = []Step{{
		Text:    "Correct what the message names. The request is repeated by itself",
		Command: shell.Command("kubectl get events --sort-by=.lastTimestamp").In(f.Object.Namespace),
	}}
	return f, true
}

// webhookName finds the name of a webhook in a message.
var webhookName = regexp.MustCompile(`(?:admission|calling) webhook "([^"]+)"`)

func nameOfWebhook(message string) string {
	if found := webhookName.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return "of no name"
}

func (c *Cluster) webhookDenied(message string, f Finding) (Finding, bool) {
	_, reason, _ := strings.Cut(message, "denied the request: ")
	f = f.waits(verdict.WebhookDenied, User, "the admission webhook %s to allow it; it denies the request: %s",
		nameOfWebhook(message), quote(firstLine(reason)))
	f.Fix = []Step{{
		Text: "Change what the webhook names. If the rule is wrong, its owner has to change it; it is one of the " +
			"ValidatingWebhookConfigurations or MutatingWebhookConfigurations",
		Command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
	}}
	return f, true
}

// webhookService finds the service of a webhook in the URL that was called.
var webhookService = regexp.MustCompile(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc`)

// webhookUnreachable is about a webhook that does not answer. What runs it is found by the name of its
// service, which often is that of its Deployment or begins with it.
func (c *Cluster) webhookUnreachable(message string, f Finding) (Finding, bool) {
	f = f.waits(verdict.WebhookUnreachable, Administrator,
		"the admission webhook %s to answer; without its answer the API server refuses the request",
		nameOfWebhook(message))
	f.Fix = []Step{
		{
			Text:    "See whether the program that serves the webhook runs, and whether its service has endpoints",
			Command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
		},
		{
			Text: "If the program was uninstalled, delete its webhook configuration, which it left behind",
			Risk: "the checks of the webhook do not happen any more",
		},
	}
	found := webhookService.FindStringSubmatch(message)
	if found == nil {
		return f, true
	}
	service := found[1]
	var server *workload
	for ref, w := range c.index.workloads {
		named := strings.HasPrefix(service, ref.Name) ||
			strings.HasPrefix(ref.Name, strings.TrimSuffix(service, "-service"))
		if ref.Namespace == found[2] && named && (server == nil || len(ref.Name) > len(server.ref.Name)) {
			server = w
		}
	}
	if server == nil {
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: Namespace, Name: found[2]}, "a workload for service " + service, "none found", "one that runs",
		})
		return f, true
	}
	f.Cause = server.ref
	f.Evidence = append(f.Evidence, Evidence{
		server.ref, "pods that are ready", fmt.Sprint(c.readyPods(server)), "1 or more",
	})
	return f, true
}

func (c *Cluster) readyPods(w *workload) (n int) {
	for _, pod := range c.index.podsOf[w.ref] {
		if isPodReady(pod) {
			n++
		}
	}
	return n
}

// podSecurity is about pods that the rules of their namespace do not allow. The node plugin of a driver
// needs host paths and privileged containers.
func (c *Cluster) podSecurity(message string, f Finding) (Finding, bool) {
	f = f.waits(verdict.PodSecurityRefused, Administrator,
		"a namespace that allows such pods; its security rules refuse them: %s", quote(firstLine(message)))
	ref := Ref{Kind: Namespace, Name: f.Object.Namespace}
	if ns := c.index.namespaces[ref.Name]; ns != nil {
		const label = "pod-security.kubernetes.io/enforce"
		f.Evidence = append(f.Evidence, Evidence{
			ref, "metadata.labels[" + label + "]", quoted(ns.Labels[label]),
			"a level that allows what the message names",
		})
	}
	f.Fix = []Step{
		{
			Text: "If this is the node plugin of a driver, it needs this: run it in a namespace whose security rules " +
				"allow privileged pods, as the driver's installation says",
			Command: shell.Command("kubectl get namespace %s --show-labels", f.Object.Namespace),
		},
		{Text: "Otherwise remove from the pod template what the message names"},
	}
	return f, true
}
