package ui

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

const (
	// reviewedFor is how long the answer about a token counts. A permission that is taken away counts
	// for so long.
	reviewedFor = time.Minute
	// mostTokens bounds the answers that are kept.
	mostTokens = 1000
	// mostOfToken bounds the length of a token.
	mostOfToken = 16 << 10
	cookieName  = "__Host-purser-token"
	pathLogin   = "/login"
)

// errNoToken says that a request has no token.
var errNoToken = errors.New("no token")

// forbiddenError is about a user who may not list what the pages show.
type forbiddenError struct{ user, missing string }

// Error implements error.
func (e forbiddenError) Error() string {
	return fmt.Sprintf("user %s may not list %s in the whole cluster", e.user, e.missing)
}

// reviewer checks tokens and permissions with the API server.
type reviewer struct {
	api   client.Client
	now   func() time.Time
	mu    sync.Mutex
	known map[[sha256.Size]byte]answer
}

// answer is what was found out about a token.
type answer struct {
	until time.Time
	err   error
}

func newReviewer(config *rest.Config) (*reviewer, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), meta.RESTScopeRoot)
	api, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &reviewer{api: api, now: time.Now, known: map[[sha256.Size]byte]answer{}}, nil
}

// check returns nil for the token of a user who may list all that the pages show.
func (r *reviewer) check(ctx context.Context, token string) error {
	if token == "" || len(token) > mostOfToken {
		return errNoToken
	}
	key := sha256.Sum256([]byte(token))
	r.mu.Lock()
	known, has := r.known[key]
	r.mu.Unlock()
	if has && r.now().Before(known.until) {
		return known.err
	}
	err := r.review(ctx, token)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostTokens {
		r.known = map[[sha256.Size]byte]answer{}
	}
	r.known[key] = answer{r.now().Add(reviewedFor), err}
	return err
}

func (r *reviewer) review(ctx context.Context, token string) error {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := r.api.Create(ctx, who); err != nil {
		return fmt.Errorf("the API server did not check the token: %w", err)
	}
	if !who.Status.Authenticated {
		return errNoToken
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	for _, rule := range shown() {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "list", Group: rule.Group, Resource: rule.Resource,
			},
		}}
		if err := r.api.Create(ctx, review); err != nil {
			return fmt.Errorf("the API server did not check the permissions: %w", err)
		}
		if !review.Status.Allowed {
			return forbiddenError{user.Username, rule.Resource}
		}
	}
	return nil
}

// shown are the kinds that the pages show to several users: the server may not list secrets then.
func shown() []inventory.Rule {
	return slices.DeleteFunc(inventory.Rules(), func(r inventory.Rule) bool { return r.Resource == "secrets" })
}

// tokenOf returns the token of a request: that of a proxy, or that of the login.
func tokenOf(r *http.Request) string {
	if token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); is {
		return token
	}
	if cookie, err := r.Cookie(cookieName); err == nil {
		return cookie.Value
	}
	return ""
}

// guard returns a handler that serves users with access alone. With TLS a user may give the token in
// a form; without it the proxy in front has to send it.
func (r *reviewer) guard(inner http.Handler, hasTLS bool) http.Handler {
	mux := http.NewServeMux()
	if hasTLS {
		mux.HandleFunc("POST "+pathLogin, r.login)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		err := r.check(req.Context(), tokenOf(req))
		forbidden, isForbidden := errors.AsType[forbiddenError](err)
		switch {
		case err == nil:
			inner.ServeHTTP(w, req)
		case isForbidden:
			http.Error(w, forbidden.Error(), http.StatusForbidden)
		case !errors.Is(err, errNoToken):
			http.Error(w, err.Error(), http.StatusBadGateway)
		case hasTLS && req.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusUnauthorized)
			_ = loginPage().Render(w) // a browser that has gone needs no answer
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token of the cluster is needed", http.StatusUnauthorized)
		}
	})
	return mux
}

// login takes a token from the form into a cookie that scripts cannot read.
func (r *reviewer) login(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, mostOfToken+1<<10)
	token := strings.TrimSpace(req.PostFormValue("token"))
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: token, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, req, "/", http.StatusSeeOther)
}
