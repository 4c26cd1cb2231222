package rules

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// check compares a refusal with the code and the text that are wanted; OK for none.
func check(t *testing.T, row string, got *Refusal, code codes.Code, text string) {
	t.Helper()
	switch {
	case got == nil && code == codes.OK:
	case got == nil:
		t.Errorf("%s: not refused, want %s", row, code)
	case got.Code != code || !strings.Contains(got.Text, text):
		t.Errorf("%s: %v, want %s with %q", row, got, code, text)
	}
}

func TestRequests(t *testing.T) {
	for _, tc := range []struct {
		row  string
		edit func(*Request)
		code codes.Code
		text string
	}{
		{"CB-12 allocated", func(*Request) {}, codes.OK, ""},
		{"CB-12 delta", func(r *Request) { r.IsDelta, r.Base = true, "handle/0" }, codes.OK, ""},
		{"CB-15 no token", func(r *Request) { r.Token = "" }, codes.InvalidArgument, "securityToken is missing"},
		{"CB-15 no namespace", func(r *Request) { r.Namespace = "" }, codes.InvalidArgument, "namespace parameter cannot be empty"},
		{"CB-15 no name", func(r *Request) { r.Snapshot = "" }, codes.InvalidArgument, "snapshotName cannot be empty"},
		{"CB-15 no base", func(r *Request) { r.IsDelta = true }, codes.InvalidArgument, "baseSnapshotId cannot be empty"},
		{"CB-15 no target", func(r *Request) { r.IsDelta, r.Base, r.Snapshot = true, "h", "" }, codes.InvalidArgument, "targetSnapshotName cannot be empty"},
		{"CB-16 negative offset", func(r *Request) { r.Offset = -1 }, codes.OutOfRange, "-1"},
		{"CB-13 negative max_results", func(r *Request) { r.MaxResults = -1 }, codes.InvalidArgument, "-1"},
		{"CB-14 a namespace that none can have", func(r *Request) { r.Namespace = "a/b" }, codes.InvalidArgument, "namespace"},
		{"CB-14 a name that none can have", func(r *Request) { r.Snapshot = "../x" }, codes.InvalidArgument, "snapshot"},
		{"CB-14 a token of 17 KiB", func(r *Request) { r.Token = strings.Repeat("x", 17<<10) }, codes.InvalidArgument, "17408 bytes"},
	} {
		r := Request{Token: "t", Namespace: "shop", Snapshot: "monday"}
		tc.edit(&r)
		check(t, tc.row, CheckRequest(r), tc.code, tc.text)
	}
}

// A refusal does not repeat the token.
func TestTokenIsNotRepeated(t *testing.T) {
	r := Request{Token: strings.Repeat("secret", 4000), Namespace: "shop", Snapshot: "monday"}
	if got := CheckRequest(r); got == nil || strings.Contains(got.Text, "secret") {
		t.Errorf("CB-18: %v", got)
	}
}

func TestTokens(t *testing.T) {
	user := authenticationv1.UserInfo{Username: "system:serviceaccount:backup:agent"}
	for _, tc := range []struct {
		row    string
		review authenticationv1.TokenReviewStatus
		code   codes.Code
	}{
		{"CB-14 accepted", authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: []string{"other", "cbt"}}, codes.OK},
		{"CB-15 not accepted", authenticationv1.TokenReviewStatus{Error: "expired"}, codes.Unauthenticated},
		{"CB-14 another audience", authenticationv1.TokenReviewStatus{Authenticated: true, User: user, Audiences: []string{"other"}}, codes.Unauthenticated},
		{"CB-14 an authenticator without audiences", authenticationv1.TokenReviewStatus{Authenticated: true, User: user}, codes.Unauthenticated},
		{"CB-14 no user", authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"cbt"}}, codes.Unauthenticated},
	} {
		text := ""
		if tc.code != codes.OK {
			text = "unauthenticated user"
		}
		check(t, tc.row, CheckToken(tc.review, "cbt"), tc.code, text)
	}
}

func TestAccess(t *testing.T) {
	for _, tc := range []struct {
		row    string
		review authorizationv1.SubjectAccessReviewStatus
		code   codes.Code
	}{
		{"CB-14 allowed", authorizationv1.SubjectAccessReviewStatus{Allowed: true}, codes.OK},
		{"CB-15 no rule", authorizationv1.SubjectAccessReviewStatus{Reason: "no RBAC policy matched"}, codes.PermissionDenied},
		{"CB-15 denied", authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, codes.PermissionDenied},
	} {
		check(t, tc.row, CheckAccess(tc.review), tc.code, tc.review.Reason)
	}
	spec := AccessReview(authenticationv1.UserInfo{
		Username: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
	}, "shop")
	want := authorizationv1.ResourceAttributes{
		Verb: "get", Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots", Namespace: "shop",
	}
	if *spec.ResourceAttributes != want || spec.User != "u" || spec.UID != "1" || len(spec.Groups) != 1 ||
		len(spec.Extra["k"]) != 1 {
		t.Errorf("CB-14: %+v", spec)
	}
}

// CB-15, CB-16: the code of the driver is passed on, except for one that says nothing.
func TestCodesOfTheDriver(t *testing.T) {
	for code, want := range map[codes.Code]codes.Code{
		codes.Unknown: codes.Internal, codes.NotFound: codes.NotFound, codes.OutOfRange: codes.OutOfRange,
		codes.InvalidArgument: codes.InvalidArgument, codes.FailedPrecondition: codes.FailedPrecondition,
		codes.Unavailable: codes.Unavailable, codes.Aborted: codes.Aborted, codes.Unimplemented: codes.Unimplemented,
	} {
		check(t, "CB-15 "+code.String(), OfDriver(code, "the pool is gone"), want, "the pool is gone")
	}
}
