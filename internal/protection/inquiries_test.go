package protection

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// One list answers for all claims of a namespace that asked before it, and who asked first goes on
// first.
func TestAnsweredInTheOrderOfAsking(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	i := newInquiries(Config{
		Live: apiserver.New().Client(), Settings: reconcile.Settings{Clock: now, Backoff: reconcile.Backoff{First: time.Second, Most: time.Minute}},
	})
	claims := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Key]())
	defer claims.ShutDown()
	if err := i.answerTo(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	var asked, answered []string
	for n := range 50 {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: fmt.Sprint("claim-", n*37%50)}}
		asked = append(asked, claim.Name)
		i.ask(claim)
		now.Step(time.Millisecond)
	}
	if _, err := i.Reconcile(t.Context(), "crew"); err != nil {
		t.Fatal(err)
	}
	for claims.Len() > 0 {
		key, _ := claims.Get()
		answered = append(answered, key.Name)
	}
	if !slices.Equal(asked, answered) {
		t.Errorf("asked %v, answered %v", asked, answered)
	}
}

// What is forgotten leaves nothing of its namespace, of which there may be many in the life of a
// process.
func TestForgottenNamespacesTakeNoMemory(t *testing.T) {
	i := newInquiries(Config{Live: apiserver.New().Client(), Settings: reconcile.Settings{Clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}})
	for n := range 3 {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("crew-", n), Name: "logbook"}}
		i.ask(claim)
		i.forget(keyOf(claim))
		i.forget(keyOf(claim))
	}
	if len(i.open)+len(i.asked)+len(i.answers) > 0 {
		t.Errorf("left are %v, %v, %v", i.open, i.asked, i.answers)
	}
}
