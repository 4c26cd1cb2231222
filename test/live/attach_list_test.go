package live

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/rolestest"
)

// 4.6: volumes that are attached to one node after each other are listed in few writes of its
// status: the first at once, the last at once, and one per [attachment.ListSpacing] between them.
func TestAttachesOfANodeAreListedTogether(t *testing.T) {
	const volumes = 12
	p := newLiveCluster(t)
	d := newExclusiveDisks()
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name})
	p.readyNode("a", d.name)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	if err := client.IgnoreAlreadyExists(p.user.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	c, _, _ := p.controllers("--controllers=attachdetach")
	rolestest.InBackground(t, c.Run)
	attachments := make([]*storagev1.VolumeAttachment, volumes)
	for i := range attachments {
		name := fmt.Sprintf("data%d", i)
		claim := p.boundPair(name, d.name)
		p.podOn("pod"+name, "a", claim.Name)
		attachments[i] = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{
			Name: names.AttachmentName("h-"+name, d.name, "a"),
		}}
		await(p, "VolumeAttachment of "+name, attachments[i], func(*storagev1.VolumeAttachment) bool { return true })
	}
	begin, began := p.mark(), time.Now()
	attached := func(i int) {
		attachments[i].Status.Attached = true
		if err := p.user.Status().Update(t.Context(), attachments[i]); err != nil {
			t.Fatal(err)
		}
	}
	attached(0)
	p.lists("a", 1)
	for i := 1; i < volumes; i++ {
		attached(i)
	}
	p.lists("a", volumes)
	// Of the last volumes each may come after what the write before it has seen.
	most := 4 + int(time.Since(began)/attachment.ListSpacing)
	writes := 0
	for request, answers := range p.asked(begin, p.mark(), "controllers") {
		if request.Verb == "patch" && request.Resource == "nodes/status" {
			writes += answers.All()
		}
	}
	if writes < 2 || writes > most {
		t.Errorf("%d writes of the node's status for %d volumes, want 2 to %d", writes, volumes, most)
	}
}
