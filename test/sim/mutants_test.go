package sim

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/controllers/journal"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
)

// mutant is a way in which our controllers could be broken: each hook stands between them and the world. The zero value is our
// controllers as they are.
type mutant struct {
	name          string
	client        func(client.Client) client.Client
	cached        func(client.Reader) client.Reader
	driver        func(csi.ControllerClient, provisioning.Journal) csi.ControllerClient
	journal       func(provisioning.Journal) provisioning.Journal
	journalConfig func(*journal.Config)
	forgets       bool // own writes, as if kube.Recent were not there
}

// veryNew makes kube.Recent believe that the watch is ahead of every write.
var veryNew = metav1.ObjectMeta{ResourceVersion: "999999999"}
