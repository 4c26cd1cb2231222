package capacity_test

import (
	"os"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/capacity"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

func TestMain(m *testing.M) { os.Exit(faketool.Main(m)) }

func TestRoomOfAPool(t *testing.T) {
	// Large numbers come with an exponent.
	const answer = `{"pools":[{"name":"a","stats":{"max_avail":5}},{"name":"b","stats":{"max_avail":7.5e+12}}]}`
	for pool, want := range map[string]int64{"a": 5, "b": 7500000000000} {
		if got, err := room(t, answer, pool); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", pool, got, err, want)
		}
	}
	if _, err := room(t, answer, "c"); !fault.NotFound.Is(err) {
		t.Errorf("no such pool: %v", err)
	}
	if _, err := room(t, "unexpected", "a"); !fault.Internal.Is(err) {
		t.Errorf("no answer: %v", err)
	}
}

func room(t *testing.T, answer, pool string) (int64, error) {
	t.Helper()
	tools := faketool.New(t, faketool.Step{Begins: "ceph df", Stdout: answer})
	runner := command.NewRunner(command.Config{LookPath: tools.LookPath, Environment: tools.Environment()})
	return capacity.Of(t.Context(), runner, command.Access{Cluster: "ceph", Conf: "/ceph.conf", User: "csi"}, pool)
}
