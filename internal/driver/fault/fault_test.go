package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestKindOf(t *testing.T) {
	inner := NotFound.Errorf("volume %q does not exist", "a")
	tests := []struct {
		name string
		err  error
		want Kind
	}{
		{"plain error", errors.New("disk on fire"), Internal},
		{"fault", inner, NotFound},
		{"wrapped fault", fmt.Errorf("publish: %w", inner), NotFound},
		{"fault around a fault", Invalid.Errorf("bad source: %w", inner), Invalid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := KindOf(test.err); got != test.want {
				t.Errorf("KindOf = %d, want %d", got, test.want)
			}
			if !test.want.Is(test.err) {
				t.Error("Is disagrees with KindOf")
			}
		})
	}
}

func TestTheCauseStaysReachable(t *testing.T) {
	err := Exhausted.Errorf("make the directory: %w", fs.ErrPermission)
	if !errors.Is(err, fs.ErrPermission) || err.Error() != "make the directory: permission denied" {
		t.Errorf("got %v", err)
	}
}

func TestNoErrorIsOfNoKind(t *testing.T) {
	if Internal.Is(nil) {
		t.Error("nil is said to be an internal fault")
	}
}
