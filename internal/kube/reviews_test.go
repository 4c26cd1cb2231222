package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
)

// CB-18: at the highest verbosity neither a token nor the answer about it is in the log.
func TestTokensAreNotLogged(t *testing.T) {
	var reviewed authenticationv1.TokenReview
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&reviewed); err != nil {
			t.Error(err)
		}
		reviewed.Status.Authenticated = true
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reviewed)
	}))
	t.Cleanup(server.Close)
	config := rest.ContentConfig{ContentType: "application/json"}
	reviewer, err := NewReviewer(&rest.Config{Host: server.URL, ContentConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 10})
	answer, err := reviewer.Token(logr.NewContext(t.Context(), log), "hidden-token", "cbt")
	if err != nil || !answer.Authenticated || reviewed.Spec.Token != "hidden-token" ||
		reviewed.Spec.Audiences[0] != "cbt" {
		t.Errorf("%+v of %+v, %v", answer, reviewed.Spec, err)
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "hidden") {
		t.Errorf("CB-18: %s", text)
	}
}
