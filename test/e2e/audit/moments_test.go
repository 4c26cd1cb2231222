package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFirsts(t *testing.T) {
	update := func(second, code int, name string) string {
		return fmt.Sprintf(`{"stage":"ResponseComplete","verb":"update","user":{"username":"p"},"objectRef":{"resource":"r","name":%q},`+
			`"responseStatus":{"code":%d},"stageTimestamp":"2026-01-01T00:00:%02d.000001Z"}`, name, code, second)
	}
	log := []string{update(5, 200, "a"), update(6, 409, "b"), update(7, 200, "b"), update(9, 200, "a"), pvCreated, update(10, 200, "c")}
	got, err := Firsts(strings.NewReader(strings.Join(log, "\n")), Request{"p", "update", "r"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Second() != 5 || got[1].Second() != 7 || got[2].Second() != 10 {
		t.Errorf("moments: %v", got)
	}
	if got.Span() != 5*time.Second || (Moments{}).Span() != 0 {
		t.Errorf("span: %v", got.Span())
	}
}
