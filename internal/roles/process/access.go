package process

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/printable"
)

// reviewer asks the API server about callers.
type reviewer interface {
	// user returns the user of a token, and whether there is one.
	user(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error)
	// mayGet reports whether a user may send a request for a path.
	mayGet(ctx context.Context, user authenticationv1.UserInfo, verb, path string) (bool, error)
}

// apiReviewer is the reviewer of an API server.
type apiReviewer struct{ *kube.Reviewer }

func newReviewer(api *rest.Config) (reviewer, error) {
	if api == nil {
		return nil, errors.New("--metrics-secure: there is no API server to ask; give --kubeconfig")
	}
	r, err := kube.NewReviewer(api)
	if err != nil {
		return nil, fmt.Errorf("--metrics-secure: %w", err)
	}
	return apiReviewer{r}, nil
}

func (r apiReviewer) user(ctx context.Context, token string) (authenticationv1.UserInfo, bool, error) {
	answer, err := r.Token(ctx, token, "")
	return answer.User, answer.Authenticated, err
}

func (r apiReviewer) mayGet(
	ctx context.Context, user authenticationv1.UserInfo, verb, path string,
) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	answer, err := r.Access(ctx, authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	})
	return answer.Allowed, err
}

const (
	// An answer is used again for so long, as controller-runtime's filter of metrics does.
	rememberUser, rememberAllowed, rememberDenied = time.Minute, 5 * time.Minute, 30 * time.Second
	// mostReviews is how many callers are reviewed at a time: tokens that no API server knows must not
	// become as many requests to it.
	mostReviews = 4
	// mostAnswers bounds what is remembered.
	mostAnswers = 1000
	// mostTokenBytes is above the size of every token of a service account.
	mostTokenBytes = 16 << 10
)

// ReviewPermissions are what the account of a secure server needs.
var ReviewPermissions = []Permission{
	{Group: authenticationv1.GroupName, Resource: "tokenreviews", Verb: "create"},
	{Group: authorizationv1.GroupName, Resource: "subjectaccessreviews", Verb: "create"},
}

// access serves handlers to callers that may get their paths.
type access struct {
	reviews reviewer
	clock   clock.PassiveClock
	slots   chan struct{}

	mu    sync.Mutex
	users map[[sha256.Size]byte]rememberedUser // by the hash of the token, which is not kept
	paths map[string]rememberedPath
}

type rememberedUser struct {
	user  authenticationv1.UserInfo
	until time.Time
}

type rememberedPath struct {
	allowed bool
	until   time.Time
}

func newAccess(reviews reviewer, c clock.PassiveClock) *access {
	return &access{
		reviews: reviews, clock: c, slots: make(chan struct{}, mostReviews),
		users: map[[sha256.Size]byte]rememberedUser{}, paths: map[string]rememberedPath{},
	}
}

// only returns a handler for callers that may get the path. All others get 401 without a token that
// the API server accepts, 403 without the permission, and 500 when the API server does not answer.
func (a *access) only(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log := logr.FromContextOrDiscard(r.Context())
		user, ok, err := a.userOf(r)
		switch {
		case err != nil:
			log.Error(err, "cannot review the token of a caller", "path", r.URL.Path)
			http.Error(w, "the API server does not review the token", http.StatusInternalServerError)
			return
		case !ok:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "give a bearer token that the API server accepts", http.StatusUnauthorized)
			return
		}
		verb := strings.ToLower(r.Method)
		allowed, err := a.allows(r.Context(), user, verb, r.URL.Path)
		switch {
		case err != nil:
			log.Error(err, "cannot review the access of a caller", "user", user.Username, "path", r.URL.Path)
			http.Error(w, "the API server does not review the access", http.StatusInternalServerError)
		case !allowed:
			http.Error(w, printable.Line(fmt.Sprintf(
				"%s may not %s %s: a ClusterRole with the nonResourceURL is missing", user.Username, verb, r.URL.Path,
			)), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// userOf returns the user of a request.
func (a *access) userOf(r *http.Request) (authenticationv1.UserInfo, bool, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > mostTokenBytes {
		return authenticationv1.UserInfo{}, false, nil
	}
	key := sha256.Sum256([]byte(token))
	a.mu.Lock()
	have, ok := a.users[key]
	a.mu.Unlock()
	if ok && a.clock.Now().Before(have.until) {
		return have.user, true, nil
	}
	release, err := a.slot(r.Context())
	if err != nil {
		return authenticationv1.UserInfo{}, false, err
	}
	defer release()
	user, ok, err := a.reviews.user(r.Context(), token)
	if err != nil || !ok {
		return authenticationv1.UserInfo{}, false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	makeRoom(a.users, func(u rememberedUser) bool { return now.Before(u.until) })
	a.users[key] = rememberedUser{user, now.Add(rememberUser)}
	return user, true, nil
}

// allows reports whether a user may get a path.
func (a *access) allows(
	ctx context.Context, user authenticationv1.UserInfo, verb, path string,
) (bool, error) {
	// An authorizer may decide by any of them.
	key := fmt.Sprintf("%q %q %q %q %q %q", user.Username, user.UID, user.Groups, user.Extra, verb, path)
	a.mu.Lock()
	have, ok := a.paths[key]
	a.mu.Unlock()
	if ok && a.clock.Now().Before(have.until) {
		return have.allowed, nil
	}
	release, err := a.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	allowed, err := a.reviews.mayGet(ctx, user, verb, path)
	if err != nil {
		return false, err
	}
	until := rememberDenied
	if allowed {
		until = rememberAllowed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	makeRoom(a.paths, func(p rememberedPath) bool { return now.Before(p.until) })
	a.paths[key] = rememberedPath{allowed, now.Add(until)}
	return allowed, nil
}

// slot waits for one of the reviews that may be in flight.
func (a *access) slot(ctx context.Context) (release func(), err error) {
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// makeRoom drops answers that are too old when there are too many, and all if none is.
func makeRoom[K comparable, V any](answers map[K]V, isValid func(V) bool) {
	if len(answers) < mostAnswers {
		return
	}
	maps.DeleteFunc(answers, func(_ K, v V) bool { return !isValid(v) })
	if len(answers) >= mostAnswers {
		clear(answers)
	}
}
