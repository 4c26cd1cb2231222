package inventory

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// noteDerived replaces the words of names that a controller makes of other names: of the pods and claims of a
// StatefulSet, and of the claims of ephemeral volumes. They are made of the words of those names in the same
// way, since what is missing is found by its name. An event may name one that does not exist.
func noteDerived(items []map[string]any, words map[string]string) {
	wordFor := func(name string) string { return cmp.Or(words[name], name) }
	for _, item := range items {
		set := unstructured.Unstructured{Object: item}
		if set.GetKind() != "StatefulSet" {
			continue
		}
		noteOrdinals(set.GetName()+"-", wordFor(set.GetName())+"-", item, words)
		for _, template := range listAt(item, "spec", "volumeClaimTemplates") {
			claim, _, _ := unstructured.NestedString(template, "metadata", "name")
			if claim == "" {
				continue
			}
			if words[claim] == "" {
				words[claim] = fmt.Sprintf("podvolume-t%d", len(words))
			}
			noteOrdinals(claim+"-"+set.GetName()+"-", words[claim]+"-"+wordFor(set.GetName())+"-", item, words)
		}
	}
	for _, item := range items {
		noteMadeForClaim(item, words)
	}
	for _, item := range items {
		pod := unstructured.Unstructured{Object: item}
		if pod.GetKind() != "Pod" {
			continue
		}
		for _, volume := range listAt(item, "spec", "volumes") {
			if name, _ := volume["name"].(string); volume["ephemeral"] != nil {
				words[pod.GetName()+"-"+name] = wordFor(pod.GetName()) + "-" + wordFor(name)
			}
		}
	}
}

// noteMadeForClaim keeps the names of the volume that is provisioned for a claim, and of the prime
// claim and the pod that a populator makes for it: they have no more than its uid.
func noteMadeForClaim(item map[string]any, words map[string]string) {
	claim := unstructured.Unstructured{Object: item}
	if claim.GetKind() != "PersistentVolumeClaim" || claim.GetUID() == "" {
		return
	}
	for _, name := range []string{
		"pvc-" + string(claim.GetUID()), populate.PrimeName(claim.GetUID()), populate.PodName(claim.GetUID()),
	} {
		if words[name] != "" {
			words[name] = name
		}
	}
}

// noteOrdinals notes the names of a prefix and a number: those of the replicas, and those that are known.
func noteOrdinals(prefix, word string, set map[string]any, words map[string]string) {
	const most = 100
	replicas, found, _ := unstructured.NestedFloat64(set, "spec", "replicas")
	if count, is, _ := unstructured.NestedInt64(set, "spec", "replicas"); is {
		replicas, found = float64(count), true
	}
	if !found {
		replicas = 1
	}
	for i := range min(int(replicas), most) {
		words[prefix+strconv.Itoa(i)] = word + strconv.Itoa(i)
	}
	for name := range words {
		if rest, is := strings.CutPrefix(name, prefix); is {
			if _, err := strconv.Atoi(rest); err == nil {
				words[name] = word + rest
			}
		}
	}
}

// listAt returns the objects of a list of an object.
func listAt(of map[string]any, fields ...string) (all []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(of, fields...)
	entries, _ := list.([]any)
	for _, entry := range entries {
		if object, is := entry.(map[string]any); is {
			all = append(all, object)
		}
	}
	return all
}

// hideService replaces the name and the namespace in the host name of a service, such as that of a webhook in
// the message of an event. Services are not read; the name of one often begins with that of its workload.
func hideService(token string, words map[string]string) string {
	parts := strings.Split(token, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return token
	}
	longest := ""
	for name := range words {
		if strings.HasPrefix(parts[0], name) && len(name) > len(longest) {
			longest = name
		}
	}
	parts[0] = cmp.Or(words[longest], "service")
	parts[1] = cmp.Or(words[parts[1]], parts[1])
	return strings.Join(parts, ".")
}
