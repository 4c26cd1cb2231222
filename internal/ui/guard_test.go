package ui

import (
	"bufio"
	"bytes"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Only a request with the printed token or its cookie, and with the name of this machine, is
// answered.
func TestAccess(t *testing.T) {
	h := Guarded(NewServer(stateOf(t, objectsText)).Handler(), Access{
		Hosts: LoopbackHosts("80"), Token: "secret", Cookie: "c",
	})
	for _, tc := range []struct {
		name, host, path, cookie string
		code                     int
	}{
		{"without a token", "127.0.0.1:80", "/", "", 403},
		{"with another token", "127.0.0.1:80", "/?token=other", "", 403},
		{"with another cookie", "127.0.0.1:80", "/", "other", 403},
		{"with the token", "127.0.0.1:80", "/?token=secret", "", 303},
		{"with the cookie", "localhost:80", "/board", "secret", 200},
		{"with the cookie, by IPv6", "[::1]:80", "/board", "secret", 200},
		{"a rebound name", "evil.example:80", "/", "secret", 421},
		{"a rebound name with the token", "evil.example:80", "/?token=secret", "", 421},
		{"another port", "127.0.0.1:81", "/", "secret", 421},
	} {
		r := httptest.NewRequest(http.MethodGet, tc.path, nil)
		r.Host = tc.host
		if tc.cookie != "" {
			r.AddCookie(&http.Cookie{Name: "c", Value: tc.cookie})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.code {
			t.Errorf("%s: %d, want %d", tc.name, w.Code, tc.code)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", tc.name, policy)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: other sites may read it", tc.name)
		}
	}
}

// The token moves from the address into a cookie, and the address keeps its other parts.
func TestTokenBecomesCookie(t *testing.T) {
	h := Guarded(http.NotFoundHandler(), Access{Token: "secret", Cookie: "c"})
	for path, want := range map[string]string{
		"/?token=secret":                   "/",
		"/life?kind=pvc&token=secret":      "/life?kind=pvc",
		"//evil.example/?token=secret":     "/evil.example/",
		"/%2F%5Cevil.example?token=secret": "/%2F%5Cevil.example",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		h.ServeHTTP(w, r)
		cookie := w.Result().Cookies()
		if w.Header().Get("Location") != want || len(cookie) != 1 || !cookie[0].HttpOnly || cookie[0].SameSite != http.SameSiteStrictMode {
			t.Errorf("%s leads to %q with %+v", path, w.Header().Get("Location"), cookie)
		}
	}
}

// Another site cannot send a file.
func TestOtherOriginsCannotPost(t *testing.T) {
	server := NewServer(stateOf(t, objectsText))
	server.Open = func(map[string][]byte) (*State, error) { return stateOf(t, objectsText), nil }
	h := Guarded(server.Handler(), Access{})
	for origin, code := range map[string]int{"http://evil.example": 403, "http://127.0.0.1": 303, "": 303} {
		body, kind := form(t, "dump.json", "{}")
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/open", body)
		r.Header.Set("Content-Type", kind)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != code {
			t.Errorf("from %q: %d, want %d", origin, w.Code, code)
		}
	}
}

func form(t *testing.T, name, text string) (*bytes.Buffer, string) {
	t.Helper()
	body := &bytes.Buffer{}
	writer := multipart.NewWriter(body)
	part, err := writer.CreateFormFile("file", name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return body, writer.FormDataContentType()
}

// A file that is opened has pages of its own, and the oldest is closed for the fifth.
func TestOpenedFiles(t *testing.T) {
	server := NewServer(stateOf(t, ""))
	server.Open = func(files map[string][]byte) (*State, error) {
		if string(files["dump.json"]) == "" {
			t.Errorf("files %v", files)
		}
		return stateOf(t, objectsText), nil
	}
	h := server.Handler()
	var first string
	for i := range mostOpened + 1 {
		body, kind := form(t, "dump.json", "text")
		r := httptest.NewRequest(http.MethodPost, "/open", body)
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		at := w.Header().Get("Location")
		if i == 0 {
			first = at
		}
		if code, page := get(t, h, at); code != 200 || !strings.Contains(page, "ClassMissing") || strings.Contains(page, "data-live") {
			t.Errorf("%s: %d", at, code)
		}
		for _, name := range []string{"app.js", "events.js", "app.css", "numbers", "map"} {
			if code, _ := get(t, h, strings.TrimSuffix(at, "board")+name); code != 200 {
				t.Errorf("%s of the file: %d", name, code)
			}
		}
	}
	if code, _ := get(t, h, first); code != 404 {
		t.Errorf("the oldest file is still open: %d", code)
	}
	if code, page := get(t, h, "/open"); code != 200 || !strings.Contains(page, `type="file"`) {
		t.Errorf("the form: %d", code)
	}
}

// A page that is open gets an event when there is a newer state.
func TestEvents(t *testing.T) {
	server := NewServer(stateOf(t, ""))
	web := httptest.NewServer(server.Handler())
	defer web.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	next := func() string {
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				return data
			}
		}
		return "ended"
	}
	if got := next(); got != "0" {
		t.Fatalf("first %q", got)
	}
	server.Set(stateOf(t, objectsText))
	if got := next(); got != "1" {
		t.Fatalf("then %q", got)
	}
	if _, page := get(t, server.Handler(), "/"); !strings.Contains(page, "ClassMissing") {
		t.Error("the newer state is not shown")
	}
}
