package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The taint is not advised for a node that has it: the API server would refuse the command.
func TestTaintIsAdvisedOnce(t *testing.T) {
	for _, taints := range [][]corev1.Taint{
		nil, {{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}
		c := &Cluster{}
		c.index.nodes = map[string]*corev1.Node{"n": node}
		var advised bool
		for _, step := range c.nodeFix("n") {
			advised = advised || strings.Contains(string(step.Command), "kubectl taint")
		}
		if advised != (taints == nil) {
			t.Errorf("taints %v: advised is %t", taints, advised)
		}
	}
}
