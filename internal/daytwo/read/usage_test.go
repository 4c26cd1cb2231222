package read

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/kube"
)

// A kubelet that hangs does not hold up the others, no more are asked at once than allowed, and each that does not
// answer is noted with the reason.
func TestKubelets(t *testing.T) {
	var atOnce, most atomic.Int32
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := atOnce.Add(1)
		defer atOnce.Add(-1)
		for {
			if old := most.Load(); now <= old || most.CompareAndSwap(old, now) {
				break
			}
		}
		w.Header().Set("Content-Type", "application/json")
		switch node := strings.Split(r.URL.Path, "/")[4]; node {
		case "hangs":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "broken":
			fmt.Fprint(w, "{")
		case "forbidden":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
		default:
			if r.URL.Path != "/api/v1/nodes/"+node+"/proxy/stats/summary" {
				t.Errorf("path %s", r.URL.Path)
			}
			fmt.Fprintf(w, `{"pods":[{"volume":[{"name":"no claim","usedBytes":1},
				{"time":"2026-01-01T00:00:00Z","usedBytes":7,"pvcRef":{"name":"of-%s","namespace":"shop"}}]}]}`, node)
		}
	}))
	defer server.Close()
	defer close(release)
	claims, pods := []corev1.PersistentVolumeClaim{}, []corev1.Pod{}
	builder := fake.NewClientBuilder().WithScheme(kube.Scheme())
	for _, node := range []string{"hangs", "broken", "forbidden", "n1", "n2", "n3", "n4"} {
		meta := metav1.ObjectMeta{Namespace: "shop", Name: "of-" + node}
		claims = append(claims, corev1.PersistentVolumeClaim{ObjectMeta: meta})
		pods = append(pods, corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: meta.Name},
			},
		}}}})
	}
	for i := range claims {
		builder.WithObjects(&claims[i], &pods[i])
	}
	reader := builder.Build()
	in, err := Usage(t.Context(), UsageConfig{
		Reader: reader, API: &rest.Config{Host: server.URL}, Namespace: "shop", Parallel: 3, Timeout: time.Second,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{
		"hangs": "no answer within 1s", "broken": "its answer cannot be read",
		"forbidden": "the permission to get nodes/proxy is missing",
		"n1":        "", "n4": "",
	} {
		answer := in.Nodes[node]
		if want != "" && !strings.Contains(answer.Err, want) || want == "" && answer.Err != "" {
			t.Errorf("%s: %q, want %q", node, answer.Err, want)
		}
		if used := answer.Claims[types.NamespacedName{Namespace: "shop", Name: "of-" + node}].Used; want == "" &&
			(used == nil || *used != 7) {
			t.Errorf("%s: %v", node, answer.Claims)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d kubelets were asked at once", most.Load())
	}
	_, err = Usage(t.Context(), UsageConfig{
		Reader: reader, API: &rest.Config{Host: server.URL}, Namespace: "shop", Claims: []string{"absent"},
		Parallel: 1, Timeout: time.Second,
	}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "pvc/absent: no such claim in namespace shop") {
		t.Errorf("%v", err)
	}
}
