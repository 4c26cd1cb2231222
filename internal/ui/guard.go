package ui

import (
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy forbids a page to load, run, send or embed anything but its own script, style and icon.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Access says who may read the pages.
type Access struct {
	// Hosts are the values that the header Host may have. A web site whose name was made to lead to
	// this server by DNS rebinding has its own name there. Empty for all.
	Hosts []string
	// Token is what the address that is printed has, and then a cookie; empty for none. Without it,
	// each user of the machine could read with the permissions of the caller.
	Token string
	// Cookie is the name of that cookie. Cookies of one host are those of all its ports.
	Cookie string
}

// Guarded returns a handler that answers requests with access alone, and sets the headers that keep
// other sites out of the pages.
func Guarded(pages http.Handler, a Access) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	inner := sameOrigin.Handler(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Headers(w.Header())
		switch {
		case len(a.Hosts) > 0 && !slices.Contains(a.Hosts, r.Host):
			http.Error(
				w, "this server has another name: use the address that it has printed", http.StatusMisdirectedRequest,
			)
		case a.Token == "" || a.has(r):
			inner.ServeHTTP(w, r)
		case same(r.URL.Query().Get("token"), a.Token) && r.Method == http.MethodGet:
			a.enter(w, r)
		default:
			http.Error(w, "open the address that the program has printed, with its token", http.StatusForbidden)
		}
	})
}

// Headers sets the headers of every answer.
func Headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// has reports whether the request has the cookie.
func (a Access) has(r *http.Request) bool {
	cookie, err := r.Cookie(a.Cookie)
	return err == nil && same(cookie.Value, a.Token)
}

func same(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// enter takes the token out of the address into a cookie.
func (a Access) enter(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: a.Cookie, Value: a.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	query := r.URL.Query()
	query.Del("token")
	to := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/\\")
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// LoopbackHosts are the values of the header Host for a port of this machine.
func LoopbackHosts(port string) []string {
	var all []string
	for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
		all = append(all, net.JoinHostPort(host, port))
	}
	return all
}
