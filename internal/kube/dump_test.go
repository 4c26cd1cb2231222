package kube

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func pod(namespace, name, node, label string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": label}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func newReader(t *testing.T) *Dump {
	t.Helper()
	r, err := NewDump(scheme.Scheme, pod("b", "1", "n1", "x"), pod("a", "2", "n2", "x"), pod("a", "1", "n1", "y"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.IndexField(t.Context(), &corev1.Pod{}, "node", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestList(t *testing.T) {
	r := newReader(t)
	for name, tc := range map[string]struct {
		opts []client.ListOption
		want []string
	}{
		"all, in order":         {nil, []string{"a/1", "a/2", "b/1"}},
		"a namespace":           {[]client.ListOption{client.InNamespace("a")}, []string{"a/1", "a/2"}},
		"a label":               {[]client.ListOption{client.MatchingLabels{"app": "x"}}, []string{"a/2", "b/1"}},
		"a field":               {[]client.ListOption{client.MatchingFields{"node": "n1"}}, []string{"a/1", "b/1"}},
		"a field in one":        {[]client.ListOption{client.MatchingFields{"node": "n1"}, client.InNamespace("b")}, []string{"b/1"}},
		"a limit":               {[]client.ListOption{client.Limit(1)}, []string{"a/1"}},
		"nothing has the field": {[]client.ListOption{client.MatchingFields{"node": "n3"}}, nil},
	} {
		var pods corev1.PodList
		if err := r.List(t.Context(), &pods, tc.opts...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, p := range pods.Items {
			got = append(got, p.Namespace+"/"+p.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	err := r.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"phase": "Running"})
	if err == nil || !strings.Contains(err.Error(), "phase") {
		t.Errorf("a field without an index: %v", err)
	}
}

func TestGet(t *testing.T) {
	r := newReader(t)
	var p corev1.Pod
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "2"}, &p); err != nil || p.Spec.NodeName != "n2" {
		t.Errorf("%v, %v", p, err)
	}
	p.Labels["app"] = "changed"
	var again corev1.Pod
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "2"}, &again); err != nil || again.Labels["app"] != "x" {
		t.Errorf("the dump was changed: %v, %v", again.Labels, err)
	}
	if err := r.Get(t.Context(), client.ObjectKey{Name: "n9"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object that is not there: %v", err)
	}
}

func TestNewRefusesDuplicates(t *testing.T) {
	if _, err := NewDump(scheme.Scheme, pod("a", "1", "", ""), pod("a", "1", "", "")); err == nil {
		t.Error("two objects of one name are no error")
	}
}
