package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	pvCreated = `{"stage":"ResponseComplete","verb":"create","user":{"username":"p"},"objectRef":{"resource":"persistentvolumes","name":"a"},"responseStatus":{"code":201}}`
	conflict  = `{"stage":"ResponseComplete","verb":"update","user":{"username":"p"},"objectRef":{"resource":"persistentvolumes","subresource":"status"},"responseStatus":{"code":409}}`
	watching  = `{"stage":"ResponseStarted","verb":"watch","user":{"username":"p"},"objectRef":{"resource":"persistentvolumes"},"responseStatus":{"code":200}}`
	readyz    = `{"stage":"ResponseComplete","verb":"get","user":{"username":"q"},"requestURI":"/readyz?verbose","responseStatus":{"code":200}}`
)

func TestCount(t *testing.T) {
	for _, tc := range []struct {
		name string
		log  []string
		want Tally
	}{
		{"nothing", nil, Tally{}},
		{"one", []string{pvCreated}, Tally{{"p", "create", "persistentvolumes"}: {201: 1}}},
		{"the same twice", []string{pvCreated, pvCreated}, Tally{{"p", "create", "persistentvolumes"}: {201: 2}}},
		{"subresources are kinds of their own", []string{pvCreated, conflict}, Tally{
			{"p", "create", "persistentvolumes"}: {201: 1}, {"p", "update", "persistentvolumes/status"}: {409: 1},
		}},
		{"a watch that goes on", []string{watching}, Tally{}},
		{"without an object", []string{readyz}, Tally{{"q", "get", "/readyz"}: {200: 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Count(strings.NewReader(strings.Join(tc.log, "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCountNamesTheBadLine(t *testing.T) {
	_, err := Count(strings.NewReader(pvCreated + "\n{half"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error = %v", err)
	}
}

func TestTallyParts(t *testing.T) {
	tally := Tally{
		{"p", "create", "persistentvolumes"}: {201: 3, 409: 1},
		{"p", "get", "persistentvolumes"}:    {404: 2},
		{"q", "create", "events"}:            {201: 5},
	}
	for name, got := range map[string][2]int{
		"all":      {tally.All(), 11},
		"by p":     {tally.By("p").All(), 6},
		"writes":   {tally.Where(Request.IsWrite).All(), 9},
		"events":   {tally.Where(Request.IsEvent).All(), 5},
		"409, 404": {tally.Answered(409, 404), 3},
		"by none":  {tally.By("r").All(), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
}
