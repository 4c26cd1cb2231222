package verdict

import "testing"

// Coded sets the code in each finding of the verdict and changes nothing else.
func TestCoded(t *testing.T) {
	f := Finding{Reason: CreateFailed, Message: "no"}
	for _, v := range []Verdict[int]{Nothing[int]{Finding: f}, Wait[int]{Finding: f}, Refuse[int]{Finding: f}, Do[int]{Finding: f, Then: Refuse[int]{Finding: f}}} {
		coded := Coded(v, "Aborted")
		if got := coded.Because(); got.Code != "Aborted" || got.Text() != f.Text() || v.Because().Code != "" {
			t.Errorf("%T: %+v", v, got)
		}
		if do, ok := coded.(Do[int]); ok && do.Then.Because().Code != "Aborted" {
			t.Errorf("then: %+v", do.Then)
		}
	}
	if Coded[int](nil, "Aborted") != nil {
		t.Error("no verdict became one")
	}
}
