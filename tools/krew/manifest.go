package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
)

const project = "https://github.com/purser-csi/purser"

// manifest is what krew reads.
func (r release) manifest(archives []archive) index.Plugin {
	p := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: "purser"},
		Spec: index.PluginSpec{
			Version:          r.version,
			Homepage:         project,
			ShortDescription: "Say why a claim, volume or pod is not getting on",
			Description: `Reads a cluster, or a dump of one, and says what a PersistentVolumeClaim,
PersistentVolume, VolumeSnapshot, VolumeAttachment or pod waits for, which
fields show that, what to do and who has to do it. It only reads, and works
beside any CSI driver and its sidecars.
`,
			Caveats: `It shows what your permissions let it read, and says what it could not read.
kubectl completes its arguments with a second program on the PATH, which krew does not link:
  kubectl purser completion > DIR/kubectl_complete-purser && chmod +x DIR/kubectl_complete-purser
`,
		},
	}
	for _, a := range archives {
		p.Spec.Platforms = append(p.Spec.Platforms, index.Platform{
			URI:      project + "/releases/download/" + r.version + "/" + a.file,
			Sha256:   a.sum,
			Bin:      a.program,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": a.system, "arch": a.arch}},
		})
	}
	return p
}
